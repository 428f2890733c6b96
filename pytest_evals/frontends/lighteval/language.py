"""``Language`` as task modules see it: names of languages with their ISO 639-3 codes
(lighteval 0.13.0, ``utils/language.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["TAGS", "Language"]

_NAMED = """
AFRIKAANS:afr:af ALBANIAN:sqi:sq AMHARIC:amh:am ARABIC:ara:ar ARMENIAN:hye:hy
ASSAMESE:asm:as AZERBAIJANI:aze:az BASHKIR:bak:ba BASQUE:eus:eu BELARUSIAN:bel:be
BENGALI:ben:bn BOSNIAN:bos:bs BRETON:bre:br BULGARIAN:bul:bg BURMESE:mya:my
CATALAN:cat:ca CEBUANO:ceb CHINESE:zho:zh CROATIAN:hrv:hr CZECH:ces:cs DANISH:dan:da
DUTCH:nld:nl EASTERN_PANJABI:pan:pa ENGLISH:eng:en ESPERANTO:epo:eo ESTONIAN:est:et
FAROESE:fao:fo FINNISH:fin:fi FRENCH:fra:fr GALICIAN:glg:gl GEORGIAN:kat:ka
GERMAN:deu:de GREEK:ell:el GUJARATI:guj:gu HAITIAN:hti:ht HAUSA:hau:ha HEBREW:heb:he
HINDI:hin:hi HUNGARIAN:hun:hu ICELANDIC:isl:is IGBO:ibo:ig INDONESIAN:ind:id
IRISH:gle:ga ITALIAN:ita:it JAPANESE:jpn:ja JAVANESE:jav:jv KANNADA:kan:kn
KAZAKH:kaz:kk KHMER:khm:km KIRGHIZ:kir:ky KOREAN:kor:ko KURDISH:kur:ku LAO:lao:lo
LATIN:lat:la LATVIAN:lav:lv LITHUANIAN:lit:lt LUXEMBOURGISH:ltz:lb MACEDONIAN:mkd:mk
MALAGASY:mlg:mg MALAY:msa:ms MALAYALAM:mal:ml MALTESE:mlt:mt MAORI:mri:mi MARATHI:mar:mr
MONGOLIAN:mon:mn NEPALI:nep:ne NORWEGIAN:nor:no NORWEGIAN_BOKMAL:nob:nb
NORWEGIAN_NYNORSK:nno:nn OCCITAN:oci:oc ORIYA:ori:or PASHTO:pus:ps PERSIAN:fas:fa
POLISH:pol:pl PORTUGUESE:por:pt QUECHUA:que:qu ROMANIAN:ron:ro RUSSIAN:rus:ru
SANSKRIT:san:sa SERBIAN:srp:sr SERBO_CROATIAN:hbs:sh SHAN:shn SINDHI:snd:sd
SINHALA:sin:si SLOVAK:slk:sk SLOVENIAN:slv:sl SOMALI:som:so SPANISH:spa:es
SUNDANESE:sun:su SWAHILI:swa:sw SWEDISH:swe:sv TAGALOG:tgl:tl TAJIK:tgk:tg TAMIL:tam:ta
TATAR:tat:tt TELUGU:tel:te THAI:tha:th TIBETAN:bod:bo TURKISH:tur:tr TURKMEN:tuk:tk
UDMURT:udm UIGHUR:uig:ug UKRAINIAN:ukr:uk URDU:urd:ur UZBEK:uzb:uz VIETNAMESE:vie:vi
WELSH:cym:cy WESTERN_FRISIAN:fry:fy XHOSA:xho:xh YIDDISH:yid:yi YORUBA:yor:yo
ZULU:zul:zu
"""
"""Name, code, and the tag of two letters where there is one."""
_PARTS = [entry.split(":") for entry in _NAMED.split()]

Language = Enum(  # type: ignore[misc]  # its members stand in the text above
    "Language", {name: code for name, code, *_ in _PARTS}
)
"""A language; its value is its code."""

TAGS: Mapping[str, str] = {code: tag[0] for _, code, *tag in _PARTS if tag}
"""Code → tag of two letters."""
