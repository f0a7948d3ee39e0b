"""Memory layout of the index: the tables and offsets that Python writes and the kernels read.

An index is a table of addresses (`INDEX_…`), a thread's scratch memory another (`WORK_…`), the axes a row of numbers
each (`AXIS_…`), and a column of a batch one too (`COLUMN_…`).

*Blocks* hold the postings, in 16-bit words. A small posting is flat: how many entries, 0, then the second condition
of all entries as three runs (axis, low, high), then their payloads (32 bits). A large posting is grouped by the axis of
the second condition: GROUPED, how many groups, how many entries (32 bits), the axes of the groups, the places where
they begin (32 bits, in words from the block's start, plus 1 for a group of points), then the groups: of points, slots
and payloads; of ranges, lows, highs and payloads; sorted by slot or low. An event without that axis passes a group by.

A *payload* is the number to report, or the complement of the place of a *record* in 16-bit words: conditions that
must hold as well, the last one marked, then the number (32 bits). A condition is an axis, a low and a high slot; a
word from ESCAPES on is one of the rarer kinds, whose operands are 32 bits each.

Second conditions are 16 bits wide. Their axis is counted from 1, axis 0 being one on which every event stands at 1.
Their slots are shifted right until the axis fits (then the record repeats the condition exactly) and counted from 1, so
that 0 means that the event lacks the axis.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 3  # goes up with every change: a saved index of another format is refused

MISSING: Final = 0
NULL: Final = 1
FALSE: Final = 2
TRUE: Final = 3
FIRST_REGION_SLOT: Final = 4
VIRTUAL_SIZE: Final = 2  # slots of a virtual axis
HIT_SLOT: Final = 1  # on a virtual axis: where an event stands whose value passes the test

# Multipliers of Fibonacci hashing: odd numbers near 2^64 and 2^32 over the golden ratio, which spread keys over the
# high bits of the product. The first is negative because the kernels' integers are signed.
FIBONACCI_64: Final = -7046029254386353131
FIBONACCI_32: Final = 0x9E3779B1

# Targets of a program's jumps that end it.
MATCH: Final = -1
FAIL: Final = -2

# The index.
INDEX_AXES: Final = 0  # how many
INDEX_PATHS: Final = 1  # int64 per axis: its first level, HAS_LEVEL, and how far slots are shifted in second conditions
INDEX_LEVELS: Final = 2  # int64 per level: its first posting, HAS_LEVEL where the axis has another, and its shift
INDEX_STARTS: Final = 3  # int32 per posting and one more: its block, in pairs of words
INDEX_BLOCKS: Final = 4
INDEX_RECORDS: Final = 5
INDEX_RUNS: Final = 6  # int32 pairs: low, high
INDEX_PROGRAMS: Final = 7  # int32: axis, low, high, on true, on false
INDEX_ALWAYS: Final = 8  # int32: payloads
INDEX_ALWAYS_COUNT: Final = 9
INDEX_LARGEST: Final = 10  # entries of the largest posting
INDEX_BLOCK_BYTES: Final = 11  # of all blocks
INDEX_FIELDS: Final = 12
# The numbers of `INDEX_PATHS` and `INDEX_LEVELS`: a shift of six bits, a bit that says that a level follows, the rest.
SHIFT_BITS: Final = 63
HAS_LEVEL: Final = 64
PLACE_SHIFT: Final = 7

# Scratch memory.
WORK_NARROW: Final = 0  # uint16 per axis and one more, for two rows: shifted slots from 1 on
WORK_NARROW_MASK: Final = 1  # they are as many as a power of two: this is one less
WORK_EXACT: Final = 2  # int32 per axis, for several rows: slots
WORK_TODO: Final = 3  # int64, two runs: the blocks to visit for this event and for the next
WORK_TODO_ROOM: Final = 4
WORK_QUEUE: Final = 5  # int64 triples: a group, its size in words plus 1 for points, the event's slot on its axis
WORK_QUEUE_ROOM: Final = 6
WORK_PENDING: Final = 7  # int32: payloads whose records must be checked
WORK_PENDING_ROOM: Final = 8
WORK_STAMPS: Final = 9  # int64 per subscription that several entries may find: the event that last did
WORK_EPOCH: Final = 10
WORK_OUT: Final = 11  # int32: the numbers found
WORK_OUT_ROOM: Final = 12
WORK_FOUND: Final = 13  # how many there are
WORK_ENDS: Final = 14  # int64 per row: how many there are after it
WORK_TOMBSTONES: Final = 15  # a bitmap of numbers not to report, or 0
WORK_TOMBSTONE_BITS: Final = 16
WORK_TABLES: Final = 17  # how many rows have slots at a time, a power of two
WORK_EXACT_SLOTS: Final = 18  # of each of these rows
WORK_GROUP: Final = 19  # the first row whose payloads are put aside
WORK_TAGS: Final = 20  # int32 per payload put aside: the table of its row; one of them where there is one row
WORK_HITS: Final = 21  # int32: the numbers found for several rows, in no order
WORK_HIT_TAGS: Final = 22
WORK_PLACES: Final = 23  # int64 per table: where the numbers of its row go
WORK_FIELDS: Final = 24
MAX_TAGGED: Final = 1024  # payloads put aside for several rows

# Blocks and records.
GROUPED: Final = 0xFFFF
MAX_FLAT_ENTRIES: Final = 0xFFFE
NO_AXIS: Final = 0
MAX_NARROW_SLOT: Final = 0xFFFF
MAX_INLINE_AXIS: Final = 32_000  # axes beyond are left to records
LAST: Final = 0x8000
ESCAPES: Final = 0x7FF0
ESCAPE_WIDE: Final = 0x7FF0  # axis, low, high
ESCAPE_RUN: Final = 0x7FF1  # axis, first run, how many
ESCAPE_PROGRAM: Final = 0x7FF2  # first row
ESCAPE_STAMP: Final = 0x7FF3  # which
PADDING: Final = 128  # bytes readable behind every array that is read in vectors

# An axis.
AXIS_SIZE: Final = 0
AXIS_NULLS: Final = 1  # whether some condition tells null from missing
AXIS_VIRTUAL: Final = 2
AXIS_NUMBERS: Final = 3  # first slot
AXIS_NUMBER_PLACE: Final = 4  # of its cuts among all
AXIS_NUMBER_COUNT: Final = 5
AXIS_INTEGER_COUNT: Final = 6  # those that lie within 64 bits
AXIS_INTEGER_HINTS: Final = 7  # place of the table that shortens the search, or -1; its shift; its smallest value
AXIS_FLOAT_PLACE: Final = 10  # of its cuts among floats, or -1 where those among integers will do
AXIS_FLOAT_HINTS: Final = 11
AXIS_DATES: Final = 14  # first slot, place and count of its cuts
AXIS_TIMESTAMPS: Final = 17
AXIS_STRINGS: Final = 20  # first slot, then as below
AXIS_BYTES: Final = 26
AXIS_AMBIGUOUS: Final = 32  # whether two exact constants round to one float: floats and decimals may be misplaced
AXIS_LOWEST_ASKED: Final = 33  # the first and the last slot that some condition asks for
AXIS_HIGHEST_ASKED: Final = 34
AXIS_FIELDS: Final = 35

# An instruction of an expression program (`expression_kernels`).
CODE_OPERATION: Final = 0
CODE_TARGET: Final = 1  # a register
CODE_LEFT: Final = 2  # a register; of OP_LOAD, a leaf
CODE_RIGHT: Final = 3  # a register; of what emits codes, an axis
CODE_LOW: Final = 4  # bounds of the values that are emitted, or the bits of a constant
CODE_HIGH: Final = 5
CODE_FIELDS: Final = 6

# What follows the first slot of strings or bytes.
TEXT_PLACE: Final = 1  # of its texts among all
TEXT_COUNT: Final = 2  # of its slots, but for the first one
TEXT_TABLE: Final = 3  # place of its hash table
TEXT_BITS: Final = 4  # of the table's size; 0 where there is none
TEXT_ORDERED: Final = 5  # whether texts that are not in the table have an order

# The axes as a whole.
AXES_ROWS: Final = 0
AXES_INTEGER_CUTS: Final = 1
AXES_FLOAT_CUTS: Final = 2
AXES_CUT_KINDS: Final = 3  # uint8, beside the integer cuts
AXES_INSTANT_CUTS: Final = 4
AXES_HINTS: Final = 5  # int32
AXES_TEXT: Final = 6
AXES_TEXT_STARTS: Final = 7
AXES_TABLES: Final = 8  # int64 pairs: key; slot, and from bit 32 on the number of the text if its key is only a hash
AXES_FIELDS: Final = 9

# How a cut is placed among decimals.
CUT_BY_FLOAT: Final = 0  # its constant is a float: the decimal is rounded
CUT_BEFORE_INTEGER: Final = 1  # the constant is the cut's integer
CUT_AFTER_INTEGER: Final = 2  # the constant is one less than the cut's integer
CUT_BEFORE_DECIMAL: Final = 3  # the constant is kept as text
CUT_AFTER_DECIMAL: Final = 4

# A column of a batch.
COLUMN_KIND: Final = 0
COLUMN_AXIS: Final = 1
COLUMN_VALID: Final = 2  # address of the validity bitmap, or 0
COLUMN_OFFSET: Final = 3  # elements before the first one
COLUMN_VALUES: Final = 4  # address of values, or of the text's offsets
COLUMN_TEXT: Final = 5
COLUMN_TEXT_END: Final = 6
COLUMN_MULTIPLY: Final = 7
COLUMN_DIVIDE: Final = 8
COLUMN_SLOTS: Final = 9  # address of int32 slots of a dictionary, -1 where a value says nothing
COLUMN_VALID_END: Final = 10
COLUMN_FIELDS: Final = 11

# An array as Arrow's C data interface shows it; a batch is one whose children are the columns.
ARRAY_LENGTH: Final = 0
ARRAY_NULLS: Final = 1
ARRAY_OFFSET: Final = 2
ARRAY_BUFFERS: Final = 5  # address of the addresses: validity, values or offsets, text
ARRAY_CHILDREN: Final = 6
ARRAY_RELEASE: Final = 8  # address of the function to call when it is no longer needed
ARRAY_FIELDS: Final = 10

# Kinds of column.
KIND_NULL: Final = 0
KIND_BOOL: Final = 1
KIND_I8: Final = 2
KIND_I16: Final = 3
KIND_I32: Final = 4
KIND_I64: Final = 5
KIND_U8: Final = 6
KIND_U16: Final = 7
KIND_U32: Final = 8
KIND_U64: Final = 9
KIND_F32: Final = 10
KIND_F64: Final = 11
KIND_TEXT32: Final = 12  # offsets of 32 bits
KIND_TEXT64: Final = 13
KIND_BYTES32: Final = 14
KIND_BYTES64: Final = 15
KIND_DATE32: Final = 16
KIND_DATE64: Final = 17
KIND_TIMESTAMP: Final = 18
KIND_SLOT8: Final = 19  # indices into COLUMN_SLOTS
KIND_SLOT16: Final = 20
KIND_SLOT32: Final = 21
KIND_SLOT64: Final = 22

# The pattern table of an attribute, or of searches through whole events.
PATTERNS_PAIRS: Final = 0  # a bitmap by two bytes: whether a text is those, or the first of them
PATTERNS_SPECIAL: Final = 1  # uint8 per byte: SPECIAL_… where a value that holds it is looked at more closely
PATTERNS_FILTER: Final = 2  # a bitmap by the hash of a gram of three or four bytes: whether some text may have it
PATTERNS_FILTER_SHIFT: Final = 3  # by which a hash of 32 bits is shifted to an index into it
PATTERNS_TABLE: Final = 4  # int64 pairs: gram, its length, where it stands; first candidate, from bit 32 on how many
PATTERNS_TABLE_BITS: Final = 5
PATTERNS_CANDIDATES: Final = 6  # int32 pairs: text, place of the gram in it
PATTERNS_TEXTS: Final = 7  # int32 rows of TEXT_ROW_FIELDS
PATTERNS_BYTES: Final = 8  # the texts themselves
PATTERNS_WORDS: Final = 9  # int64: what is found with a text
PATTERNS_WORD_COUNT: Final = 10
PATTERNS_LENGTHS: Final = 11  # bit n: whether there are grams of n bytes, 1 to 4; eight bits for each of GRAM_…
PATTERNS_ALWAYS: Final = 12  # first word that is found with every text
PATTERNS_ALWAYS_COUNT: Final = 13
PATTERNS_TESTS: Final = 14  # int64 rows of TEST_FIELDS, by the number in an undecided word
PATTERNS_PROGRAMS: Final = 15
PATTERNS_LITERALS: Final = 16  # what programs of one skeleton differ in
PATTERNS_SCREENS: Final = 17  # int64 beside the words: the features that a value must have
PATTERNS_TEXT_SCREENS: Final = 18  # int64 by text: the features that all its words ask for
PATTERNS_FIELDS: Final = 19

# Where in a value a gram is looked for.
GRAM_ANYWHERE: Final = 0
GRAM_AT_START: Final = 1
GRAM_AT_END: Final = 2

# Marks of bytes that begin a character whose lower case may be for Python to say.
SPECIAL: Final = 1
SPECIAL_DOTTED_I: Final = 2  # if the dotted capital I follows, whose lower case is ASCII
SPECIAL_KELVIN: Final = 3  # if the Kelvin sign does

TEXT_ROW_START: Final = 0
TEXT_ROW_LENGTH: Final = 1
TEXT_ROW_ENDS: Final = 2  # bits: 1, only at the start of a value; 2, only at its end; and one of the next two
TEXT_ROW_WORD: Final = 3  # its first word
TEXT_ROW_WORDS: Final = 4  # how many
TEXT_ROW_FIELDS: Final = 5

# A test that needs more than its text.
TEST_PROGRAM: Final = 0  # place of its program; -1: for Python
TEST_CODE: Final = 1
TEST_STAMP: Final = 2  # of a test that several texts find: its stamp, or 0
TEST_LITERALS: Final = 3  # place of its literals, in bytes
TEST_FIELDS: Final = 4

# Features of a value, as bits: which bytes it has (ASCII letters and digits one bit each, other bytes share four), and
# which byte is its last.
FIRST_LETTER_FEATURE: Final = 0
FIRST_DIGIT_FEATURE: Final = 26
FIRST_OTHER_FEATURE: Final = 36
OTHER_FEATURES: Final = 4
FIRST_LAST_BYTE_FEATURE: Final = 40
LAST_BYTE_FEATURES: Final = 23

# Stamps: int64 per text, then per test that several texts find: the epoch of the value in which it was last found.
STAMP_FEATURES_EPOCH: Final = 0  # the value whose features are the next number
STAMP_FEATURES: Final = 1
FIRST_STAMP: Final = 2
MAX_FEATURED_BYTES: Final = 64  # of a value whose bytes are looked at; a longer one is taken to have them all

# Which form of a value a text is looked for in. The two differ where Python must bring a value to lower case.
OF_PLAIN: Final = 4  # ASCII letters in lower case: of patterns that tell case
OF_FOLDED: Final = 8  # all letters in lower case: of patterns that ignore case

GRAM: Final = 4  # bytes of the grams that longer texts are found by

# A word is the code of a test that holds. With the first bit it is the number of a test that its program or Python
# must decide; with the second bit it is of the whole event and may be found for several of its values.
WORD_UNDECIDED: Final = 1 << 62
WORD_SHARED: Final = 1 << 61

# Skeletons, which patterns have in common that differ in literals alone, and their pieces, which must occur in a value.
SKELETON_FLAGS: Final = 0
SKELETON_PROGRAM: Final = 1  # place of its program; -1: Python decides
SKELETON_PIECE: Final = 2  # its first piece
SKELETON_PIECES: Final = 3
SKELETON_FIELDS: Final = 4
SKELETON_HAS_POINTS: Final = 1  # literals are code points of 32 bits, not bytes
SKELETON_IGNORES_CASE: Final = 2
SKELETON_IS_ITS_PIECE: Final = 4  # a value that has its only piece passes, if case does not matter
PIECE_CLAUSE: Final = 0  # of its skeleton: of the pieces of a clause one must occur
PIECE_ENDS: Final = 1  # as TEXT_ROW_ENDS
PIECE_UNIT: Final = 2  # its first unit: a byte, or the complement of the number of a literal
PIECE_UNITS: Final = 3
PIECE_FIELDS: Final = 4

# Patterns that a table is made of, and the pieces of each, in order.
PATTERN_SKELETON: Final = 0
PATTERN_CODE: Final = 1
PATTERN_LITERALS: Final = 2  # place of its literals, in bytes
PATTERN_FIELDS: Final = 3
FILED_PATTERN: Final = 0
FILED_CLAUSE: Final = 1
FILED_START: Final = 2  # of its bytes
FILED_LENGTH: Final = 3
FILED_ENDS: Final = 4
FILED_ID: Final = 5  # equal pieces have the first one's number
FILED_COUNT: Final = 6  # how many equal ones there are, at the first; later the number of its text, or -1
FILED_FIELDS: Final = 7

# The program of a skeleton, in words of 64 bits.
PROGRAM_KIND: Final = 0
PROGRAM_LIKE: Final = 1
PROGRAM_ILIKE: Final = 2  # of a value in lower case
PROGRAM_AUTOMATON: Final = 3  # of a regular expression

# A LIKE pattern: its parts follow, each with its runs.
LIKE_LEAST_BYTES: Final = 1  # of a value that matches
LIKE_PARTS: Final = 2
LIKE_HEADER: Final = 3
PART_RUNS: Final = 0  # how many
PART_SIZE: Final = 1  # in characters; negative: in bytes, of a part without gaps
PART_GAP_AFTER: Final = 2  # characters after the last run
PART_FIELDS: Final = 3
RUN_GAP_BEFORE: Final = 0  # characters
RUN_PLACE: Final = 1  # of its bytes, among the literals
RUN_LENGTH: Final = 2
RUN_FIELDS: Final = 3

# An automaton: one or two contexts follow, then of each position how many ranges it has (from bit 32 on) and where they
# are, then the ranges: the first code point from bit 32 on, and the last; or the complement of the number of a literal.
AUTOMATON_POSITIONS: Final = 1
AUTOMATON_BOUNDARIES: Final = 2  # whether there is a second context, of word boundaries
AUTOMATON_BEGINS_AT_START: Final = 3
AUTOMATON_HAS_FIRST: Final = 4  # whether every match begins with one of the next two characters
AUTOMATON_FIRST: Final = 5  # a code point, or the complement of the number of a literal
AUTOMATON_SECOND: Final = 6
AUTOMATON_HEADER: Final = 7
CONTEXT_FIRST: Final = 0
CONTEXT_FIRST_AT_START: Final = 1
CONTEXT_LAST: Final = 2
CONTEXT_LAST_AT_END: Final = 3
CONTEXT_LAST_AT_VERY_END: Final = 4
CONTEXT_EMPTY: Final = 5
CONTEXT_FOLLOW: Final = 6  # of each position

# The cache of the values of a column: an open hash table of entries.
CACHE_TABLE: Final = 0  # int64 pairs: key of a value, its entry plus 1
CACHE_BITS: Final = 1
CACHE_ENTRIES: Final = 2  # int64 rows of ENTRY_FIELDS
CACHE_COUNT: Final = 3
CACHE_ROOM: Final = 4
CACHE_TEXT: Final = 5  # the values' bytes
CACHE_TEXT_USED: Final = 6
CACHE_TEXT_ROOM: Final = 7
CACHE_WORDS: Final = 8  # int64: the entries' words
CACHE_WORDS_USED: Final = 9
CACHE_WORDS_ROOM: Final = 10
CACHE_STAMPS: Final = 11
CACHE_EPOCH: Final = 12
CACHE_FOLDED: Final = 13  # room for a value in lower case
CACHE_TODO: Final = 14  # int64 pairs: an entry that must be looked at more closely, and a row that has its value
CACHE_TODO_COUNT: Final = 15
CACHE_TODO_ROOM: Final = 16
CACHE_MAX_WORDS: Final = 17  # of one value, so far
CACHE_FIELDS: Final = 18

ENTRY_TEXT: Final = 0  # where its value is kept, or -1
ENTRY_LENGTH: Final = 1
ENTRY_WORD: Final = 2  # its first word
ENTRY_WORDS: Final = 3  # how many; -1: nothing is known yet
ENTRY_FIELDS: Final = 4

# A column whose values are tested.
TESTED_COLUMN: Final = 0  # its descriptor
TESTED_PATTERNS: Final = 1
TESTED_CACHE: Final = 2
TESTED_IDS: Final = 3  # int32 per row: the entry of its value, or -1
TESTED_NULL: Final = 4  # the entry of null, or -1
TESTED_FOUND: Final = 5  # how many rows have an entry
TESTED_FIELDS: Final = 6

MAX_CACHED_VALUE_BYTES: Final = 4096  # bytes of a value that is kept
MAX_FOLDED_BYTES: Final = 65_536  # and of one that is looked through here
