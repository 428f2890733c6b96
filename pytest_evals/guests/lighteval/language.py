"""``Language``: names of languages and their ISO 639-3 codes (lighteval 0.13.0,
``utils/language.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

_NAMED = """
ACEHNESE:ace AFRIKAANS:afr:af AKAN:aka:ak ALBANIAN:sqi:sq AMHARIC:amh:am ARABIC:ara:ar
ARMENIAN:hye:hy ASSAMESE:asm:as ASTURIAN:ast AWADHI:awa AYACUCHO_QUECHUA:quy
AZERBAIJANI:aze:az BALINESE:ban BAMBARA:bam:bm BANJAR:bjn BASHKIR:bak:ba BASQUE:eus:eu
BELARUSIAN:bel:be BEMBA:bem BENGALI:ben:bn BHOJPURI:bho BIHARI:bih:bh BOSNIAN:bos:bs
BRETON:bre:br BUGINESE:bug BULGARIAN:bul:bg BURMESE:mya:my CATALAN:cat:ca CEBUANO:ceb
CENTRAL_ATLAS_TAMAZIGHT:tzm CENTRAL_AYMARA:ayr CENTRAL_KANURI:knc CENTRAL_KURDISH:ckb
CHHATTISGARHI:hne CHINESE:zho:zh CHOKWE:cjk CRIMEAN_TATAR:crh CROATIAN:hrv:hr
CZECH:ces:cs DANISH:dan:da DARI:prs:fa-AF DIVEHI:div:dv DUTCH:nld:nl DYULA:dyu
DZONGKHA:dzo:dz EASTERN_PANJABI:pan:pa EASTERN_YIDDISH:ydd EGYPTIAN_ARABIC:arz
ENGLISH:eng:en ESPERANTO:epo:eo ESTONIAN:est:et EWE:ewe:ee FAROESE:fao:fo FIJIAN:fij:fj
FINNISH:fin:fi FON:fon FRENCH:fra:fr FRIULIAN:fur GALICIAN:glg:gl GANDA:lug:lg
GEORGIAN:kat:ka GERMAN:deu:de GREEK:ell:el GUARANI:grn:gn GUJARATI:guj:gu HAITIAN:hti
HAITIAN_CREOLE:hat:ht HALH_MONGOLIAN:khk HAUSA:hau:ha HEBREW:heb:he HINDI:hin:hi
HUNGARIAN:hun:hu ICELANDIC:isl:is IGBO:ibo:ig ILOCANO:ilo INDONESIAN:ind:id IRISH:gle:ga
ITALIAN:ita:it JAPANESE:jpn:ja JAVANESE:jav:jv JINGPHO:kac KABIYE:kbp KABUVERDIANU:kea
KABYLE:kab KAMBA:kam KANNADA:kan:kn KASHMIRI:kas:ks KAZAKH:kaz:kk KHMER:khm:km
KIKONGO:kon:kg KIKUYU:kik:ki KIMBUNDU:kmb KINYARWANDA:kin:rw KIRGHIZ:kir:ky
KOREAN:kor:ko KURDISH:kur:ku LAO:lao:lo LATGALIAN:ltg LATIN:lat:la LATVIAN:lav:lv
LIGURIAN:lij LIMBURGISH:lim:li LINGALA:lin:ln LITHUANIAN:lit:lt LOMBARD:lmo
LUBA_KASAI:lua LUO:luo LUXEMBOURGISH:ltz:lb MACEDONIAN:mkd:mk MAGAHI:mag MAITHILI:mai
MALAGASY:mlg:mg MALAY:msa:ms MALAYALAM:mal:ml MALTESE:mlt:mt MAORI:mri:mi MARATHI:mar:mr
MEITEI:mni MESOPOTAMIAN_ARABIC:acm MINANGKABAU:min MIZO:lus MODERN_STANDARD_ARABIC:arb
MOROCCAN_ARABIC:ary MOSSI:mos NAJDI_ARABIC:ars NEPALI:nep:ne NIGERIAN_FULFULDE:fuv
NORTHERN_KURDISH:kmr NORTHERN_SOTHO:nso NORTHERN_UZBEK:uzn NORTH_AZERBAIJANI:azj
NORTH_LEVANTINE_ARABIC:apc NORWEGIAN:nor:no NORWEGIAN_BOKMAL:nob:nb
NORWEGIAN_NYNORSK:nno:nn NUER:nus NYANJA:nya:ny OCCITAN:oci:oc ODIA:ory ORIYA:ori:or
PANGASINAN:pag PAPIAMENTO:pap PASHTO:pus:ps PERSIAN:fas:fa PLATEAU_MALAGASY:plt
POLISH:pol:pl PORTUGUESE:por:pt QUECHUA:que:qu ROMANIAN:ron:ro RUNDI:run:rn
RUSSIAN:rus:ru SAMOAN:smo:sm SANGO:sag:sg SANSKRIT:san:sa SANTALI:sat SARDINIAN:srd:sc
SCOTTISH_GAELIC:gla:gd SERBIAN:srp:sr SERBOCROATIAN:hbs:sr-Latn SHAN:shn SHONA:sna:sn
SICILIAN:scn SILESIAN:szl SINDHI:snd:sd SINHALA:sin:si SLOVAK:slk:sk SLOVENIAN:slv:sl
SOMALI:som:so SOUTHERN_PASHTO:pbt SOUTHERN_SOTHO:sot:st SOUTHWESTERN_DINKA:dik
SOUTH_AZERBAIJANI:azb SOUTH_LEVANTINE_ARABIC:ajp SPANISH:spa:es STANDARD_LATVIAN:lvs
STANDARD_MALAY:zsm STANDARD_TIBETAN:bod:bo SUNDANESE:sun:su SWAHILI:swa:sw SWATI:ssw:ss
SWEDISH:swe:sv TAGALOG:tgl:fil TAIZZI_ADENI_ARABIC:acq TAJIK:tgk:tg TAMASHEQ:taq
TAMIL:tam:ta TATAR:tat:tt TELUGU:tel:te THAI:tha:th TIGRINYA:tir:ti TOK_PISIN:tpi
TOSK_ALBANIAN:als TSONGA:tso:ts TSWANA:tsn:tn TUMBUKA:tum TUNISIAN_ARABIC:aeb
TURKISH:tur:tr TURKMEN:tuk:tk TWI:twi:tw UDMURT:udm UKRAINIAN:ukr:uk UMBUNDU:umb
URDU:urd:ur UYGHUR:uig:ug UZBEK:uzb:uz VENETIAN:vec VIETNAMESE:vie:vi WAR:war
WELSH:cym:cy WESTERN_FRISIAN:fry:fy WESTERN_PERSIAN:pes WEST_CENTRAL_OROMO:gaz
WOLOF:wol:wo XHOSA:xho:xh YIDDISH:yid:yi YORUBA:yor:yo YUE_CHINESE:yue ZULU:zul:zu
"""
"""Name, code, and the standard tag if it differs from the code."""
_PARTS = [entry.split(":") for entry in _NAMED.split()]
_SECOND_NAMES = {"KYRGYZ": "kir", "PUNJABI": "pan", "SORANI": "ckb", "WARAY": "war"}

Language = Enum(  # type: ignore[misc]  # members come from the table above
    "Language", {name: code for name, code, *_ in _PARTS} | _SECOND_NAMES
)

TAGS: Mapping[str, str] = {code: tag[0] for _, code, *tag in _PARTS if tag}
"""Code → standard tag, usually two letters."""

_INDIVIDUAL = """
acm:ara als:sqi apc:ara arb:ara ars:ara ary:ara arz:ara azj:aze ckb:kur fil:tgl hat:hti
lvs:lav nob:nor npi:nep ory:ori pbt:pus pes:fas plt:mlg swh:swa uzn:uzb zsm:msa
"""
"""Codes of individual languages, and those of their macrolanguages."""
MACROLANGUAGES: Mapping[str, Language] = {one.value: one for one in Language} | {
    one[:3]: Language(one[4:]) for one in _INDIVIDUAL.split()
}
"""Code → the language, or its macrolanguage."""


def standardize_tag(code: str) -> str:
    """Standard tag of a language, as the library langcodes returns it."""
    return TAGS.get(code, code)


def manage_duplicate_language_codes(code: str) -> str:
    """Code of the macrolanguage, for two codes that lighteval treats as duplicates."""
    return {"npi": "nep", "swh": "swa"}.get(code, code)
