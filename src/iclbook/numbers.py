"""Numbers as a person writes them: the one place that turns a number into text for a reader.

Pages and the terminal get the same text, in plain Unicode, so that nothing has to typeset it: 0.13, 12,300, −0.04, 2.5 million, 1.2 × 10⁻⁷.
What programs read back (results, references, JSON) does not come through here.
"""

import math
import re

MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("-0123456789T", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ")
#: Names of the powers of ten of a thousandfold million, and so on; beyond them powers.
_WORDS = {6: "million", 9: "billion"}
_PLAIN = re.compile(r"(?P<sign>[+-]?)(?P<whole>\d+)(?P<rest>(?:\.\d+)?%?)")
_IN_TEXT = re.compile(r"(?<![\w.,/-])[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+|%)?(?![\w-]|/(?!\d)|[.,]\d)")
_YEAR = re.compile(r"\d{4}")
_POWER = re.compile(r"(?P<sign>[+-]?)(?P<mantissa>\d+(?:\.\d+)?)[eE](?P<power>[+-]?\d+)")


def number(value: float, digits: int = 3, form: str | None = None) -> str:
    """A number in a reader's text.

    Integers, also those held as floats below a million, stand as they are; other numbers are rounded to ``digits`` significant digits, without
    zeros at the end (a rounded number that looks like an integer keeps them, so that 0.9998 does not claim to be 1). Thousands are separated; from a
    million on there is a word, from 10¹² on and below 0.001 a power of ten.

    Args:
        form: a format specification, such as ``.0%`` or ``+.2f``, in place of significant digits: decimals are then as it says.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if form is not None:
        return _dressed(format(value, form))
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else f"{MINUS if value < 0 else ''}\u221e"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e6):
        return _dressed(f"{int(value)}")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    power = int(power)
    if -3 <= power < 6:
        return _dressed(_trimmed(f"{float(f'{mantissa}e{power}'):.{max(0, digits - 1 - power)}f}"))
    if 6 <= power < 12:
        step = power - power % 3
        scaled = float(f"{mantissa}e{power - step}")
        exact = scaled * 10**step == value
        return f"{_dressed(_trimmed(f'{scaled:.{max(0, digits - 1 - power % 3)}f}', exact))} {_WORDS[step]}"
    exact = float(f"{mantissa}e{power}") == value
    return _dressed(f"{_trimmed(mantissa, exact)}e{power}")


def numbers(values: list | tuple, digits: int = 3, form: str | None = None) -> str:
    """Several numbers, with commas between them."""
    return ", ".join(number(value, digits, form) for value in values)


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours, whichever reads best: 4.4 s, 45 s, 3.3 min, 5.2 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{number(seconds / size, 2)} {unit}"
    return f"{number(seconds, 2)} s"


def raised(power: str) -> str:
    """A whole number, or the T of a transpose, as an exponent."""
    return power.translate(_SUPERSCRIPTS)


def tidied(text: str) -> str:
    """A text in which ``format`` wrote the numbers, such as a table's cell, with each of them as :func:`number` would have written it; four digits may be a year, and stay."""
    text = _IN_TEXT.sub(lambda match: match[0] if _YEAR.fullmatch(match[0]) else _dressed(match[0]), text)
    return text.replace(" +- ", " ± ")


def _trimmed(text: str, exact: bool = False) -> str:
    """Decimals without zeros at their end; a rounded number that then were an integer keeps them."""
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return text if "." in text and "." not in short and not exact else short


def _dressed(text: str) -> str:
    """Output of ``format`` with a true minus, thousands apart and powers of ten in place of e-notation."""
    if found := _POWER.fullmatch(text):
        power = f"10{raised(str(int(found['power'])))}"
        mantissa = found["mantissa"]
        return _sign(found["sign"]) + (power if mantissa == "1" else f"{mantissa} \u00d7 {power}")
    if found := _PLAIN.fullmatch(text):
        digitless = not (found["whole"] + found["rest"]).strip("0.%")
        sign = "" if digitless and found["sign"] == "-" else _sign(found["sign"])
        whole = found["whole"] if found["whole"].startswith("0") else f"{int(found['whole']):,}"
        return f"{sign}{whole}{found['rest']}"
    return text.replace("-", MINUS)


def _sign(sign: str) -> str:
    return MINUS if sign == "-" else sign
