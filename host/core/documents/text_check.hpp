// Whether a file is text to train on. Everything else, trained on, would be noise without a message.
#pragma once

#include <filesystem>

namespace wmtp {

/// Error(data) if the beginning of `file` shows that it is no text, or JSON lines without a `text`; packed or not
/// (io/file_kind.hpp).
void check_text_kind(const std::filesystem::path& file);

/// Error(data) unless `file` is text in UTF-8 (at most one byte in a thousand may be no part of a character, and none
/// NUL), or JSON lines whose first object has a `text`. Reads all of a text.
void check_text_file(const std::filesystem::path& file);

}  // namespace wmtp
