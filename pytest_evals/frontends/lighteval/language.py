"""``Language`` as task modules see it: names of languages with their ISO 639-3 codes
(lighteval 0.13.0, ``utils/language.py``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["Language"]

_NAMED = """
AFRIKAANS:afr ALBANIAN:sqi AMHARIC:amh ARABIC:ara ARMENIAN:hye ASSAMESE:asm
AZERBAIJANI:aze BASHKIR:bak BASQUE:eus BELARUSIAN:bel BENGALI:ben BOSNIAN:bos
BRETON:bre BULGARIAN:bul BURMESE:mya CATALAN:cat CEBUANO:ceb CHINESE:zho CROATIAN:hrv
CZECH:ces DANISH:dan DUTCH:nld EASTERN_PANJABI:pan ENGLISH:eng ESPERANTO:epo
ESTONIAN:est FAROESE:fao FINNISH:fin FRENCH:fra GALICIAN:glg GEORGIAN:kat GERMAN:deu
GREEK:ell GUJARATI:guj HAITIAN:hti HAUSA:hau HEBREW:heb HINDI:hin HUNGARIAN:hun
ICELANDIC:isl IGBO:ibo INDONESIAN:ind IRISH:gle ITALIAN:ita JAPANESE:jpn JAVANESE:jav
KANNADA:kan KAZAKH:kaz KHMER:khm KIRGHIZ:kir KOREAN:kor KURDISH:kur LAO:lao LATIN:lat
LATVIAN:lav LITHUANIAN:lit LUXEMBOURGISH:ltz MACEDONIAN:mkd MALAGASY:mlg MALAY:msa
MALAYALAM:mal MALTESE:mlt MAORI:mri MARATHI:mar MONGOLIAN:mon NEPALI:nep NORWEGIAN:nor
NORWEGIAN_BOKMAL:nob NORWEGIAN_NYNORSK:nno OCCITAN:oci ORIYA:ori PASHTO:pus PERSIAN:fas
POLISH:pol PORTUGUESE:por QUECHUA:que ROMANIAN:ron RUSSIAN:rus SANSKRIT:san SERBIAN:srp
SERBO_CROATIAN:hbs SHAN:shn SINDHI:snd SINHALA:sin SLOVAK:slk SLOVENIAN:slv SOMALI:som
SPANISH:spa SUNDANESE:sun SWAHILI:swa SWEDISH:swe TAGALOG:tgl TAJIK:tgk TAMIL:tam
TATAR:tat TELUGU:tel THAI:tha TIBETAN:bod TURKISH:tur TURKMEN:tuk UDMURT:udm UIGHUR:uig
UKRAINIAN:ukr URDU:urd UZBEK:uzb VIETNAMESE:vie WELSH:cym WESTERN_FRISIAN:fry XHOSA:xho
YIDDISH:yid YORUBA:yor ZULU:zul
"""

Language = Enum(  # type: ignore[misc]  # its members stand in the text above
    "Language", dict(pair.split(":") for pair in _NAMED.split())
)
"""A language; its value is its code."""
