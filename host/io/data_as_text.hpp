// Data that is written as text but is none to train on: base64, hexadecimal digits, dumps of bytes, numbers, tables.
// Each function looks at `start`, the beginning of a file, and finds only what all of it is; a text that contains some
// of it is text.
#pragma once

#include <string_view>

namespace wmtp {

inline constexpr size_t bytes_for_table = 1 << 16;  ///< of a file's beginning; 4 KiB are enough for the others

/// Whether it is lines of whole base64, also that of URLs and in keys, in which capitals, small letters and digits are
/// all frequent, as in no language.
bool is_base64(std::string_view start);

/// Whether it is a file of uuencode.
bool is_uuencoded(std::string_view start);

/// Whether it is hexadecimal digits of whole bytes, at least 512, with letters of one case, in words of any length,
/// also with 0x and commas.
bool is_hexadecimal(std::string_view start);

/// Whether its lines begin with the offsets that xxd, hexdump and od write.
bool is_dump(std::string_view start);

/// Whether it is lists of token ids or other numbers, also below a caption: at least 64 numbers of at least 16
/// different values, with separators and brackets only; if all are whole and small, one is 100 or more, as the ids of
/// letters are. Numbers with leading zeros or more than 10 digits are digits of something else. `are_ids`: all are
/// whole, none is negative, and no colon, bar or tab tells that some are positions or labels.
struct NumbersFound {
  bool are_numbers = false, are_ids = false;
};
NumbersFound find_number_list(std::string_view start);

/// The separator of a table: a comma, a semicolon, a tab or a bar; 0 if it is no table. Lines that begin with # may
/// come first. All rows, at least two after the header, have as many values as it has names, and one of these shows
/// that it is a header: a quoted value as in RFC 4180, a column of numbers, an unnamed first column of numbers, or a
/// name that is common in data sets; with the last and numbered rows, these may have more values. Or there is no
/// header, at least 16 rows are equally long, and every value is quoted, or of at least three columns, without spaces
/// after separators, one is of numbers and one of sentences. `is_cut`: the file is longer.
char table_separator(std::string_view start, bool is_cut);

}  // namespace wmtp
