"""Schema inference: column type (number, category, date) from a sample, excluded columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelstream.tables.columns import matching, name_list, require
from kernelstream.tables.files import SourceError
from kernelstream.tables.treatment import (
    BOOLEAN,
    BRACKETS,
    CALENDAR,
    CATEGORY,
    CODES,
    CYCLES,
    DATE_FORMATS,
    FALSE,
    ISO,
    KINDS,
    LEFT_OUT,
    MINUS,
    MISSING,
    NUMBER,
    TRUE,
    UNITS,
    Column,
    Treatment,
    as_words,
    cycles,
    is_text,
    parse_date,
    plain_array,
    seconds_of,
    spelt_plainly,
)

MOST_LEVELS = 50  # of a category; what has more different words is text
REPEATED = 5  # rows a level, on average: text of fewer is names
LOOKED_AT = 1000  # different words of a column that are looked at one by one
FEWEST_ROWS = 20  # from which an order, a constant or an equality is no accident
FAMILY = 8  # columns of one name with numbers behind it that make an array, such as p00 to p63
LABELS = ("label", "labels", "target", "class")
COUNTERS = ("index", "id", "rowid", "row_id", "rownum", "row", "no", "nr", "uuid", "guid", "key")
_ID = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|nr|no)$|Id$|ID$", re.ASCII)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?([T ]\d\d?:\d\d(:\d\d([.,]\d+)?)?)?\s*(Z|[+-]\d\d:?\d\d)?$"
    r"|\d{1,4}[./]\d\d?[./]\d{2,4}(\s+\d\d?:\d\d(:\d\d)?(\s*[AaPp][Mm])?)?$"
    r"|\d\d?[- ][A-Za-z]{3}[- ]\d{4}(\s+\d\d?:\d\d(:\d\d)?)?$"
    r"|\d\d?:\d\d(:\d\d)?$"
)
_SIGN_NAMES = {MINUS: "a long minus", "(": "negative ones in brackets"}
_SIGNED = re.compile(rf"([-+{MINUS}]?)\s*[{UNITS}]?\s*([0-9.,].*?)\s*[{UNITS}]?")
_COMMA = re.compile(
    r"[+-]?(\d+|\d{1,3}(\.\d{3})+|\d{1,3}([ '\u00a0\u202f]\d{3})+)(,\d+)?([eE][+-]?\d+)?$"
)
_POINT = re.compile(
    r"[+-]?(\d+|\d{1,3}(,\d{2,3})*,\d{3}|\d{1,3}([ '\u00a0\u202f]\d{3})+)(\.\d+)?([eE][+-]?\d+)?$"
)
_BLANK = re.compile(r"\d[ '\u00a0\u202f]\d{3}")  # between thousands


@dataclass(frozen=True)
class Wishes:
    """What the user says about columns.

    Attributes
    ----------
    columns : sequence of str or None
        Names or patterns of the columns to learn, whatever they look like; None: those that should.
    exclude : sequence of str
        Those to leave out.
    treat : mapping of str to str
        Names or patterns, and what they are: a word of ``KINDS``, or ``"out"``.
    decimal, thousands : str or None
        How numbers are written in text; None: as it looks.
    missing : "fill" or "bad"
        Whether a missing value is filled, or makes its row a bad one.
    weight : str or None
        The column with the weight of rows.
    target : str or None
        The column that is to be predicted.
    """

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    treat: Mapping[str, str] = None  # type: ignore[assignment]
    decimal: str | None = None
    thousands: str | None = None
    missing: str = "fill"
    weight: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        treat = dict(self.treat or {})
        object.__setattr__(self, "treat", treat)
        for name, use in treat.items():
            if use not in (*KINDS, "out"):
                raise ValueError(
                    f"{name!r} cannot be treated as {use!r}: choose one of "
                    f"{', '.join(KINDS)} or out."
                )
        if self.missing not in ("fill", "bad"):
            raise ValueError(f"missing must be 'fill' or 'bad'; got {self.missing!r}.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ','; got {self.decimal!r}.")


NO_WISHES = Wishes()


def treatment_of(
    table: pa.Table,
    wishes: Wishes = NO_WISHES,
    *,
    index: Sequence[str] = (),
    named: bool = True,
    whole: bool = True,
    where: str = "The table",
    remarks: Sequence[str] = (),
) -> Treatment:
    """What is to be done with the columns of a table, by a sample of its rows.

    Parameters
    ----------
    table : pyarrow.Table
        The sample, in the order of the rows.
    wishes : Wishes
        What the user says.
    index : sequence of str
        Columns that are the index of a data frame.
    named : bool
        Whether the names are the table's own.
    whole : bool
        False where later rows may be unlike these: then nothing is left out because of their
        values.
    where : str
        What messages call the table.
    remarks : sequence of str
        What was found about its files.

    Returns
    -------
    Treatment

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"x": ["1,5", "2,5", "0,1"], "ok": ["yes", "no", "yes"]})
    >>> print(treatment_of(table))
    x   learned (numbers with decimal commas)
    ok  learned as 0 and 1 (booleans)
    """
    names = table.column_names
    require([wishes.weight] if wishes.weight is not None else [], names, where)
    out = set(matching(wishes.exclude, names, where)) if wishes.exclude else set()
    asked = None if wishes.columns is None else matching(wishes.columns, names, where)
    for pattern in wishes.treat:
        matching([pattern], names, where)
    looked: list[Column] = []
    families = Counter(map(_stem, names))
    for name in names:
        if name == wishes.weight:
            column = Column(name, LEFT_OUT, "the weight of the rows")
        elif name == wishes.target:
            column = Column(name, LEFT_OUT, "the target")
        elif name in out or (asked is not None and name not in set(asked)):
            column = Column(name, LEFT_OUT, "not asked for")
        else:
            column = look_at(table, name, wishes)
            forced = wish_for(name, wishes) is not None or asked is not None
            if column.learned and not forced:
                column = _purpose(table, column, index, families, named, whole)
        looked.append(column)
    if whole and asked is None:
        looked = _leave_out_copies(table, looked, families, wishes)
    if asked is not None:  # in the order in which they were asked for
        place = {name: i for i, name in enumerate(asked)}
        looked.sort(key=lambda column: place.get(column.name, len(place)))
    treatment = Treatment(tuple(looked), tuple(remarks), wishes.missing == "fill")
    if not table.num_rows and not treatment.inputs:
        raise SourceError(
            f"{where} has no rows below the names of its columns, {name_list(names)}."
        )
    if not treatment.inputs:
        reasons = "; ".join(f"{c.name or '(no name)'}: {c.reason}" for c in looked[:8])
        raise SourceError(
            f"{where} has no column of numbers to learn; its columns: {name_list(names)} "
            f"({reasons}). Choose some with --columns (columns=...)."
        )
    return treatment


def wish_for(name: str, wishes: Wishes) -> str | None:
    """What the user says that a column is; an exact name counts before a pattern."""
    if name in wishes.treat:
        return wishes.treat[name]
    return next((use for p, use in wishes.treat.items() if fnmatchcase(name, p)), None)


def look_at(table: pa.Table, name: str, wishes: Wishes) -> Column:
    """What a column holds, by its type or by its words, or by what the user says."""
    cells, wish = plain_array(table.column(name)), wish_for(name, wishes)
    if wish == "out":
        return Column(name, LEFT_OUT, "not asked for")
    stored = table.column(name).type
    if wish is None and pa.types.is_dictionary(stored) and pa.types.is_integer(stored.value_type):
        levels = levels_of(cells)  # numbers that were said to be categories
        wish = CATEGORY if 0 < len(levels) <= MOST_LEVELS else None
    missing = _missing(cells)
    share = float(missing.mean()) if len(missing) else 0.0
    column = _of_wish(name, cells, wish, wishes) if wish else _by_itself(name, cells, wishes)
    if share == 1.0 and len(missing) and wish is None:
        return Column(name, LEFT_OUT, "empty", missing=share)
    return replace(column, missing=round(share, 6))


def _missing(cells: pa.Array) -> np.ndarray:
    null = np.array(pc.is_null(cells, nan_is_null=True).to_numpy(zero_copy_only=False), dtype=bool)
    if is_text(cells.type):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
        known = pc.fill_null(pc.is_in(words, pa.array(sorted(MISSING), pa.string())), True)
        null |= np.asarray(known.to_numpy(zero_copy_only=False), dtype=bool)
    return null


def _of_wish(name: str, cells: pa.Array, wish: str, wishes: Wishes) -> Column:
    if wish == NUMBER:
        column = _numbers(name, _words(cells), wishes) if is_text(cells.type) else None
        return column or Column(name, NUMBER, "numbers, as asked")
    if wish == BOOLEAN:
        return Column(name, BOOLEAN, "booleans, as asked")
    if wish in (CATEGORY, CODES):
        levels = levels_of(cells)
        asked = ", as asked" if wish_for(name, wishes) else ""
        return Column(name, wish, f"{len(levels)} levels{asked}", levels)
    dates = _dates(_words(cells)) if is_text(cells.type) else ISO
    temporal = pa.types.is_temporal(cells.type) and not pa.types.is_duration(cells.type)
    if dates is None or not (is_text(cells.type) or temporal):
        raise SourceError(f"The column {name!r} holds no dates or times: it has no calendar.")
    turns = cycles(seconds_of(cells, dates))
    varied = tuple(cycle for cycle in CYCLES if np.nanmax(turns[cycle]) > np.nanmin(turns[cycle]))
    return Column(name, CALENDAR, "dates, as asked", varied or CYCLES[:1], dates=dates)


def _by_itself(name: str, cells: pa.Array, wishes: Wishes) -> Column:
    type = cells.type
    if pa.types.is_boolean(type):
        return Column(name, BOOLEAN, "booleans")
    if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type):
        return Column(name)
    if pa.types.is_duration(type):
        return Column(name, NUMBER, "durations, in seconds")
    if pa.types.is_temporal(type):
        return Column(name, LEFT_OUT, _DATES_OUT)
    if pa.types.is_null(type):
        return Column(name, LEFT_OUT, "empty")
    if not is_text(type):
        return Column(name, LEFT_OUT, f"not numbers ({type})")
    if len(cells) and wishes.decimal is None and wishes.thousands is None and _all_numbers(cells):
        return Column(name)
    words = _words(cells)
    if not words:
        return Column(name, LEFT_OUT, "empty")
    lowered = {word.lower() for word in words}
    if lowered <= TRUE | FALSE and not lowered <= {"0", "1"}:
        return Column(name, BOOLEAN, "booleans")
    numbers = _numbers(name, words, wishes)
    if numbers is not None:
        return numbers
    if _dates(words) is not None:
        return Column(name, LEFT_OUT, _DATES_OUT)
    levels = levels_of(cells)
    present = len(cells) - int(_missing(cells).sum())
    if len(levels) <= MOST_LEVELS and len(levels) * REPEATED <= present:
        kind = "level" if len(levels) == 1 else "levels"
        return Column(name, CATEGORY, f"{len(levels)} {kind}", levels)
    n = len(levels) if len(levels) <= MOST_LEVELS else pc.count_distinct(as_words(cells)).as_py()
    return Column(name, LEFT_OUT, f"not numbers (text, {n:,} different in the sample)")


_DATES_OUT = "dates or times (--treat NAME=calendar learns hour, weekday and day of the year)"


def _all_numbers(cells: pa.Array) -> bool:
    """Whether all text is numbers at once, which is as usual as it is fast to find out."""
    try:
        cells.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return len(cells) > cells.null_count


def _words(cells: pa.Array) -> list[str]:
    """The different words of a column, those for missing values left out: some of very many."""
    trimmed = pc.drop_null(pc.unique(pc.utf8_trim_whitespace(cells)))
    words = trimmed.slice(0, LOOKED_AT).to_pylist()
    return [word for word in words if word.lower() not in MISSING]


def levels_of(cells: pa.Array) -> tuple[str, ...]:
    """The levels of a category in the order of the alphabet, at most ``MOST_LEVELS`` of them.

    Of more, those that are most frequent.
    """
    counts = pc.value_counts(pc.drop_null(as_words(cells))).to_pylist()
    counts = [c for c in counts if c["values"].lower() not in MISSING]
    counts.sort(key=lambda c: (-c["counts"], c["values"]))
    most = MOST_LEVELS if len(counts) <= MOST_LEVELS else MOST_LEVELS + 1
    return tuple(sorted(c["values"] for c in counts[:most]))


def _numbers(name: str, words: list[str], wishes: Wishes) -> Column | None:
    """A column of text as numbers, where at least half of its words are some.

    Signs around them, 12 % or $ 1,200, are passed over; a minus may be a long one.
    """
    column = _spelling(name, [_bare(word) for word in words], wishes)
    signs = "".join(sorted({sign for word in words for sign in word if sign in MINUS + UNITS}))
    signs += "(" if any(re.search(BRACKETS, word) for word in words) else ""
    if column is None or not signs:
        return column
    more = "with" if column.is_plain else "and"
    shown = ", ".join(_SIGN_NAMES.get(sign, sign) for sign in signs)
    reason = f"{column.reason} {more} {shown}"
    return replace(column, reason=reason, thousands=column.thousands + signs)


def _bare(word: str) -> str:
    """A word without signs before and after it.

    Examples
    --------
    >>> _bare("12.5 %"), _bare("-$ 3"), _bare("\u2212 3 \u20ac"), _bare("($3)")
    ('12.5', '-3', '-3', '-3')
    """
    word = re.sub(BRACKETS, r"-\1", word)
    found = _SIGNED.fullmatch(word)
    return word if found is None else f"{found[1].replace(MINUS, '-')}{found[2]}"


def _spelling(name: str, words: list[str], wishes: Wishes) -> Column | None:
    """How numbers are written in a column, where at least half of its words are some."""

    def share(pattern: re.Pattern[str] | None) -> float:
        fits = (_is_number(w) if pattern is None else pattern.match(w) is not None for w in words)
        return sum(fits) / max(len(words), 1)

    point, comma = share(None), share(_COMMA)
    decimal, thousands = wishes.decimal, wishes.thousands
    if decimal is None and point >= 0.5 and point >= comma:
        decimal = "."
    if decimal in (None, ".") and thousands is None and point < 0.99:
        with_point = share(_POINT)
        # 1,234 in all of them may be a decimal comma: two groups, or groups beside a point, decide
        sure = [w for w in words if w.count(",") > 1 or ("," in w and "." in w and _POINT.match(w))]
        blank = [w for w in words if _BLANK.search(w) and _POINT.match(w)]
        if with_point > max(point, 0.5) and (sure or blank or decimal == "."):
            return Column(name, NUMBER, "numbers with thousands", thousands=", '\u00a0\u202f")
    if decimal is None and comma >= 0.5:
        decimal = ","
    if decimal == "," and comma >= 0.5:
        grouped = any(_BLANK.search(w) or re.search(r"\d\.\d{3}", w) for w in words)
        separators = ". '\u00a0\u202f" if thousands is None and grouped else thousands or ""
        reason = "numbers with decimal commas" + (" and thousands" if separators else "")
        return Column(name, NUMBER, reason, decimal=",", thousands=separators)
    if thousands:
        return Column(name, NUMBER, "numbers with thousands", thousands=thousands)
    return Column(name) if point >= 0.5 else None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _dates(words: list[str]) -> str | None:
    """How dates are written in these words; None where they are none."""
    fits = [word for word in words if _DATE.match(word)]
    if not words or len(fits) < 0.9 * len(words):
        return None
    for dates in (ISO, *DATE_FORMATS):
        good = sum(not np.isnan(parse_date(word, dates)) for word in fits[:200])
        if good >= 0.95 * len(fits[:200]):
            return dates
    return None


def _purpose(
    table: pa.Table,
    column: Column,
    index: Sequence[str],
    families: Counter[str],
    named: bool,
    whole: bool,
) -> Column:
    """Leave out what is learned by mistake: an index, a counter, a key, a constant, a label."""

    def leave_out(reason: str) -> Column:
        return Column(column.name, LEFT_OUT, reason, missing=column.missing)

    name, low = column.name, column.name.strip().lower()
    if name in index:
        return leave_out("the index of a data frame")
    if named and low in LABELS and whole:
        return leave_out("a label, by its name")
    if not whole or table.num_rows < FEWEST_ROWS:
        return column
    cells = plain_array(table.column(name))
    alone = families[_stem(name)] < FAMILY
    if alone and not column.missing and len(pc.unique(cells)) == 1:
        return leave_out("constant")
    encoded = column.encode(cells)
    known = encoded[np.isfinite(encoded).all(axis=1)]
    present = len(cells) - int(_missing(cells).sum())
    if alone and column.missing and len(known) == present and (known == known[:1]).all():
        return leave_out("constant where it is not missing")
    if column.use != NUMBER:
        return column
    values = encoded[:, 0]
    steps = np.diff(values)
    whole_numbers = bool(np.all(np.mod(values, 1.0) == 0)) if np.isfinite(values).all() else False
    unnamed = named and (low == "" or low.startswith("unnamed:"))
    if whole_numbers and unnamed:
        return leave_out("an unnamed counter")
    if whole_numbers and float(np.abs(values).max()) > 2**53 and _are_unique_integers(cells):
        return leave_out("a key: another number in every row")
    if not whole_numbers or len(np.unique(values)) < len(values):
        return column
    if (steps > 0).all() or (steps < 0).all():
        return leave_out("counts the rows")
    span = float(values.max() - values.min())
    if named and (low in COUNTERS or _ID.search(name.strip()) or span + 1 == len(values)):
        return leave_out("a key: another number in every row")
    return column


def _are_unique_integers(cells: pa.Array) -> bool:
    """Whether no two are the same, in digits that a float would lose."""
    written = is_text(cells.type) and pc.all(pc.match_substring_regex(cells, r"^\s*-?\d+\s*$"))
    is_integer = written.as_py() if written else pa.types.is_integer(cells.type)
    return is_integer and len(pc.unique(cells)) == len(cells)


def _stem(name: str) -> str:
    """What columns of one array share, p00 to p63: these stay together."""
    stem = name.rstrip("0123456789")
    return stem if stem != name else f"{name}\0"


def _leave_out_copies(
    table: pa.Table, looked: list[Column], families: Counter[str], wishes: Wishes
) -> list[Column]:
    """Leave out columns that are equal to another one in every row."""
    if table.num_rows < FEWEST_ROWS:
        return looked
    seen: dict[object, list[tuple[str, pa.Array]]] = {}
    kept = []
    for column in looked:
        forced = wish_for(column.name, wishes) is not None
        if column.learned and not forced and families[_stem(column.name)] < FAMILY:
            cells = plain_array(table.column(column.name))
            if is_text(cells.type) and not column.is_plain:
                cells = spelt_plainly(cells, column.decimal, column.thousands)
            key = (column.use, *(str(cells[i]) for i in (0, len(cells) // 2, len(cells) - 1)))
            twin = next((name for name, other in seen.get(key, []) if other.equals(cells)), None)
            if twin is not None:
                column = Column(column.name, LEFT_OUT, f"the same as {twin!r}")
            else:
                seen.setdefault(key, []).append((column.name, cells))
        kept.append(column)
    return kept
