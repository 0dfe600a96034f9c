// See safetensors_header.hpp. The JSON is parsed event by event: a document tree would drop duplicate keys and use ten
// times as much memory for a header of 16 MiB.
#include "checkpoint/safetensors/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/files.hpp"
#include "base/json.hpp"

namespace wmtp {
namespace {

constexpr size_t max_dimensions = 32;
constexpr size_t max_metadata = 4096;  // keys; in the map a short string takes ten times its length
constexpr size_t max_piece = 64 << 10;

[[noreturn]] void refuse_tensor(const std::string& where, const std::string& name, const std::string& what) {
  throw Error(ExitStatus::data,
              where + ": " + name + " " + what + "; the file is damaged, or was not written by safetensors");
}

/// Accepts {name: {dtype, shape: [..], data_offsets: [begin, end]}, "__metadata__": {..}} and nothing else.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  /// `is_cut`: the text is the readable part of a longer header.
  HeaderHandler(SafetensorsHeader& header, const std::string& where, bool is_cut)
      : header_(header), where_(where), is_cut_(is_cut) {}

  bool start_object(std::size_t) override {
    if (state_ == ParserState::start) {
      state_ = ParserState::top;
    } else if (state_ == ParserState::name && name_ == "__metadata__") {
      if (has_metadata_) refuse("occurs twice");
      has_metadata_ = true;
      state_ = ParserState::metadata;
    } else if (state_ == ParserState::name) {
      entry_ = TensorEntry{};
      entry_.name = name_;
      has_dtype_ = false;
      shape_.reset();
      offsets_.reset();
      state_ = ParserState::entry;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& text) override {
    if (state_ == ParserState::top) {
      name_ = text;
      state_ = ParserState::name;
    } else if (state_ == ParserState::metadata) {
      metadata_key_ = text;
      state_ = ParserState::metadata_value;
    } else {
      entry_key(text);
    }
    return true;
  }

  bool end_object() override {
    if (state_ == ParserState::top) {
      state_ = ParserState::end;
      return true;
    }
    if (state_ == ParserState::entry) finish_entry();
    state_ = ParserState::top;
    return true;
  }

  bool string(string_t& text) override {
    if (state_ == ParserState::dtype) {
      if (dtype_size(text) == 0) refuse("has the dtype " + printable(text) + "; wanted one such as F32, BF16 or I64");
      entry_.dtype = text;
      has_dtype_ = true;
      state_ = ParserState::entry;
    } else if (state_ == ParserState::metadata_value) {
      if (!header_.metadata.emplace(metadata_key_, text).second)
        refuse("has the key " + printable(metadata_key_) + " twice");
      if (header_.metadata.size() > max_metadata) refuse("has more than " + std::to_string(max_metadata) + " keys");
      state_ = ParserState::metadata;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == ParserState::shape) {
      state_ = ParserState::shape_values;
    } else if (state_ == ParserState::offsets) {
      state_ = ParserState::offset_values;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == ParserState::offset_values && offsets_->size() != 2)
      refuse("has " + std::to_string(offsets_->size()) + " data_offsets; wanted [begin, end]");
    state_ = ParserState::entry;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    auto& values = state_ == ParserState::shape_values ? shape_ : offsets_;
    if (state_ != ParserState::shape_values && state_ != ParserState::offset_values) unexpected("a number");
    const size_t limit = state_ == ParserState::shape_values ? max_dimensions : 2;
    if (values->size() == limit) refuse("has more than " + std::to_string(limit) + " numbers in a list");
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      refuse("has the number " + std::to_string(value) + ", which is too large");
    values->push_back(int64_t(value));
    return true;
  }

  bool number_integer(number_integer_t value) override {
    unexpected("the number " + std::to_string(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + printable(text));
    return true;
  }
  bool null() override {
    unexpected("null");
    return true;
  }
  bool boolean(bool) override {
    unexpected("a boolean");
    return true;
  }
  bool binary(binary_t&) override {
    unexpected("binary data");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    throw Error(ExitStatus::data,
                where_ + ": the header " +
                    (is_cut_ ? "has " + std::to_string(max_piece) + " bytes without a quote before byte "
                             : std::string("is invalid JSON at byte ")) +
                    std::to_string(position) + " of it; the file is damaged, or not a safetensors file");
  }

 private:
  enum class ParserState {
    start,
    top,
    name,
    entry,
    dtype,
    shape,
    shape_values,
    offsets,
    offset_values,
    metadata,
    metadata_value,
    end
  };

  void entry_key(const std::string& text) {
    if (text == "dtype" && !has_dtype_) {
      state_ = ParserState::dtype;
    } else if (text == "shape" && !shape_) {
      shape_.emplace();
      state_ = ParserState::shape;
    } else if (text == "data_offsets" && !offsets_) {
      offsets_.emplace();
      state_ = ParserState::offsets;
    } else if (text == "dtype" || text == "shape" || text == "data_offsets") {
      refuse("has " + text + " twice");
    } else {
      refuse("has the key " + printable(text) + "; wanted dtype, shape and data_offsets only");
    }
  }

  void finish_entry() {
    if (!has_dtype_ || !shape_ || !offsets_)
      refuse(std::string("has no ") + (!has_dtype_ ? "dtype" : !shape_ ? "shape" : "data_offsets"));
    entry_.shape = std::move(*shape_);
    entry_.begin = (*offsets_)[0];
    entry_.end = (*offsets_)[1];
    header_.entries.push_back(std::move(entry_));
  }

  [[noreturn]] void unexpected(const std::string& what) const {
    if (state_ == ParserState::start)
      throw Error(ExitStatus::data, where_ + ": the header is " + what + "; wanted an object of tensors");
    refuse("has " + what + " where " + wanted() + " was wanted");
  }

  std::string wanted() const {
    switch (state_) {
      case ParserState::dtype:
        return "the dtype's name";
      case ParserState::shape:
        return "the list of the shape";
      case ParserState::offsets:
        return "the list [begin, end]";
      case ParserState::shape_values:
      case ParserState::offset_values:
        return "an integer of at least 0";
      case ParserState::metadata_value:
        return "a string";
      default:
        return "an object";
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    refuse_tensor(where_, name_ == "__metadata__" ? name_ : "tensor " + printable(name_), what);
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  const bool is_cut_;
  ParserState state_ = ParserState::start;
  std::string name_, metadata_key_;
  TensorEntry entry_;
  bool has_dtype_ = false, has_metadata_ = false;
  std::optional<std::vector<int64_t>> shape_, offsets_;
};

/// Position of the first unescaped quote at or after `from`; json.size() if there is none.
size_t next_quote(std::string_view json, size_t from) {
  for (size_t at = json.find('"', from); at != std::string_view::npos; at = json.find('"', at + 1)) {
    size_t escapes = 0;
    while (at - escapes > from && json[at - escapes - 1] == '\\') ++escapes;
    if (escapes % 2 == 0) return at;
  }
  return json.size();
}

/// The part of the header that is worth parsing: all of it, or everything up to max_piece bytes into the first stretch
/// without quotes that is longer than that. Valid headers have none, and the search costs a hundredth of parsing.
std::string_view readable_part(std::string_view json) {
  for (size_t begin = 0; begin < json.size();) {
    const std::string_view part = json.substr(0, begin + max_piece + 1);
    const size_t end = next_quote(part, begin);
    if (end - begin > max_piece) return part;
    begin = end + 1;
  }
  return json;
}

void check_size(const TensorEntry& entry, int64_t buffer, const std::string& where) {
  const auto refuse = [&](const std::string& what) { refuse_tensor(where, "tensor " + printable(entry.name), what); };
  int64_t bytes = dtype_size(entry.dtype);
  const bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
  for (const int64_t length : entry.shape)
    if (!empty && __builtin_mul_overflow(bytes, length, &bytes)) refuse("has a shape of more than 2^63 bytes");
  if (empty) bytes = 0;
  const std::string offsets = std::string("[") + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  if (entry.begin > entry.end) refuse("has data_offsets " + offsets + ", whose end is before their begin");
  if (entry.end > buffer)
    refuse("has data_offsets " + offsets + ", but the file has " + std::to_string(buffer) + " bytes of tensors");
  if (entry.end - entry.begin != bytes) {
    refuse("has " + std::to_string(entry.end - entry.begin) + " bytes by its data_offsets, " + std::to_string(bytes) +
           " by its shape and dtype");
  }
}

void check_layout(std::vector<TensorEntry>& entries, int64_t buffer, const std::string& where) {
  std::ranges::stable_sort(entries, {}, [](const TensorEntry& entry) { return std::pair(entry.begin, entry.end); });
  int64_t covered = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != covered) {
      throw Error(ExitStatus::data,
                  where + ": tensor " + printable(entry.name) + " begins at byte " + std::to_string(entry.begin) +
                      " of the buffer, the previous one ends at " + std::to_string(covered) +
                      (entry.begin < covered ? ": they overlap" : ": there is a hole") + "; the file is damaged");
    }
    covered = entry.end;
  }
  if (covered != buffer) {
    throw Error(ExitStatus::data,
                where + ": " + std::to_string(buffer - covered) + " bytes follow the last tensor; the file is damaged");
  }
}

}  // namespace

int64_t dtype_size(const std::string& dtype) {
  static const std::map<std::string, int64_t> sizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},     {"I32", 4},
      {"F32", 4},  {"U64", 8}, {"I64", 8}, {"F64", 8},     {"C64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size, const std::string& where) {
  SafetensorsHeader header;
  const std::string_view part = readable_part(json);
  HeaderHandler handler(header, where, part.size() < json.size());
  Json::sax_parse(part.begin(), part.end(), &handler);
  const int64_t data_begin = 8 + int64_t(json.size());
  const int64_t buffer = file_size - data_begin;
  for (const TensorEntry& entry : header.entries) check_size(entry, buffer, where);
  check_layout(header.entries, buffer, where);
  for (TensorEntry& entry : header.entries) {
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  return header;
}

}  // namespace wmtp
