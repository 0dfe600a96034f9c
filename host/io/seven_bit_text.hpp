// Encodings that write all characters with the bytes of ASCII, as older mails and web pages do. Read as ASCII, such
// text would be trained on without a message.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// The name for iconv of the encoding in which `start`, the beginning of a text, is written: ISO-2022-JP-2,
/// ISO-2022-KR, ISO-2022-CN-EXT, UTF-7, or, which are no names for it, HZ or quoted-printable; "" if it can be ASCII.
/// The last three are found only in text without a sign that they do not allow, and with more characters than other
/// text has by chance.
std::string seven_bit_encoding(std::string_view start);

}  // namespace wmtp
