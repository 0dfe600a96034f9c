#include "data/tokens/foreign_numbers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t fewest_numbers = 128, fewest_for_likely = 512;
constexpr int fewest_zero_bits = 32;  // that ids have by chance in one of 2^32 files
constexpr size_t fewest_ids = 4;      // different ones
constexpr int largest_whole_exponent = 31;
// Bytes below `small_byte` are 1/16 of all. In 512 different ids the low bytes are spread over all values, the high
// bytes are not; swapped, it is the other way round.
constexpr uint8_t small_byte = 16;
constexpr size_t fewest_varied = 64, fewest_types = 512;
constexpr uint8_t narrow_byte = 128;
constexpr size_t fewest_of_all_bytes = 4096;  // numbers
// The high bytes of random numbers deviate from equal frequencies by a chi-square of 255 +- 23. Compressed files were
// measured below 255 + n / 100; ids of which one is as frequent as 1 in 64 are above 255 + n / 32.
constexpr size_t fewest_random = 8192;
constexpr double most_deviation = 1.0 / 45;
constexpr uint16_t small_sample = 1024;
constexpr size_t fewest_negative = 32;  // different ones

template <class T>
std::vector<T> numbers_from(std::string_view bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

template <class T>
T swapped(T number) {
  T other = 0;
  for (size_t i = 0; i < sizeof number; ++i) other = T(other << 8 | (number >> 8 * i & 0xff));
  return other;
}

template <class T>
std::vector<T> swapped(std::vector<T> numbers) {
  for (T& number : numbers) number = swapped(number);
  return numbers;
}

struct FloatFormat {
  const char* name;
  int mantissa_bits, exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int exponent(uint64_t number) const {
    return int(number >> mantissa_bits & ((uint64_t{1} << exponent_bits) - 1)) - bias();
  }
};
constexpr FloatFormat float16{"float16", 10, 5}, bfloat16{"bfloat16", 7, 8}, float32{"float32", 23, 8},
    float64{"float64", 52, 11};

/// Whether all are whole numbers that are not negative. The mantissa of a small one ends with zeros.
template <class T>
bool are_whole(const std::vector<T>& numbers, const FloatFormat& format) {
  if (numbers.size() < fewest_numbers) return false;
  std::set<T> different;
  int zero_bits = 0;
  for (const T number : numbers) {
    if (number == 0 || !different.insert(number).second) continue;
    const int exponent = format.exponent(number), zeros = std::max(0, format.mantissa_bits - exponent);
    const bool is_negative = number >> (format.mantissa_bits + format.exponent_bits) != 0;
    const bool is_infinite = exponent > format.bias();
    if (is_negative || is_infinite || exponent < 0 || exponent > largest_whole_exponent) return false;
    if ((number & ((T{1} << zeros) - 1)) != 0) return false;
    zero_bits += zeros;
  }
  return zero_bits >= fewest_zero_bits;
}

/// Whether these are the first 16 bits of floats as weights and embeddings are: none is large, and, unless they may all
/// have one sign, as many are negative as positive, with the same exponents.
bool are_fractions(const std::vector<uint16_t>& numbers, const FloatFormat& format, bool may_have_one_sign = false) {
  constexpr int large = 4, tiny = -30;
  if (numbers.size() < fewest_for_likely) return false;
  std::array<std::array<size_t, large - tiny>, 2> counts{};
  size_t nonzero = 0, rare = 0, both = 0;
  const int mantissa_bits = 15 - format.exponent_bits;
  const FloatFormat of_16{format.name, mantissa_bits, format.exponent_bits};
  for (const uint16_t number : numbers) {
    if ((number & 0x7fff) == 0) continue;
    ++nonzero;
    const int exponent = of_16.exponent(number);
    if (exponent >= large) return false;
    const bool is_tiny = exponent < tiny || exponent == -format.bias();
    is_tiny ? ++rare : ++counts[number >> 15][size_t(exponent - tiny)];
  }
  for (size_t i = 0; i < counts[0].size(); ++i) both += 2 * std::min(counts[0][i], counts[1][i]);
  return nonzero * 2 > numbers.size() && rare * 50 <= nonzero && (may_have_one_sign || both * 10 >= nonzero * 7);
}

/// Whether each sixteenth of all numbers of 16 bits is about equally frequent, as in the last bits of fractions.
bool are_spread(const std::vector<uint16_t>& numbers) {
  std::array<size_t, 16> counts{};
  for (const uint16_t number : numbers) ++counts[number >> 12];
  const auto [least, most] = std::ranges::minmax(counts);
  return least * 32 >= numbers.size() && most * 8 <= numbers.size();
}

/// Each `step`-th number, from `first` on.
std::vector<uint16_t> each(const std::vector<uint16_t>& numbers, size_t first, size_t step) {
  std::vector<uint16_t> chosen;
  for (size_t i = first; i < numbers.size(); i += step) chosen.push_back(numbers[i]);
  return chosen;
}

std::string floats(const std::string& format, const std::string& why) {
  return "begins like numbers of " + format + ": " + why +
         "; token ids are whole numbers: save numbers.astype(\"<u2\"), or \"<u4\" above 65,535";
}

template <class T>
std::string whole_floats_of(std::string_view bytes, const FloatFormat& format) {
  const std::string why = "each is a whole number in that format, and read as an id it would be another";
  const std::vector<T> numbers = numbers_from<T>(bytes);
  if (are_whole(numbers, format)) return floats(format.name, why);
  return are_whole(swapped(numbers), format) ? floats("big-endian " + std::string(format.name), why) : "";
}

constexpr std::string_view in_little_endian_order = "save them in little-endian order: ids.astype(\"<u";

template <class T>
std::string swapped_ids_of(std::string_view bytes, const std::string& type, int64_t vocab_size) {
  const std::vector<T> ids = numbers_from<T>(bytes), others = swapped(ids);
  const auto is_beyond = [&](T id) { return int64_t(id) >= vocab_size; };
  const auto beyond = std::ranges::count_if(ids, is_beyond);
  if (ids.size() < fewest_numbers || beyond == 0 || std::ranges::any_of(others, is_beyond)) return "";
  if (std::set<T>(ids.begin(), ids.end()).size() < fewest_ids) return "";
  return "begins like big-endian ids: " + with_thousands(beyond) + " of the first " +
         counted(int64_t(ids.size()), "id") + " of " + type + " are not below the vocabulary's size " +
         with_thousands(vocab_size) + ", but all are with their bytes swapped; " + std::string(in_little_endian_order) +
         std::to_string(sizeof(T)) + "\")";
}

/// Of one of the two bytes of numbers of 16 bits.
struct ByteCounts {
  std::array<size_t, 256> counts{};

  void add(uint8_t byte) { ++counts[byte]; }
  size_t varied() const {
    return size_t(std::ranges::count_if(counts, [](size_t count) { return count > 0; }));
  }
  size_t below(size_t limit) const {
    return std::accumulate(counts.begin(), counts.begin() + int64_t(limit), size_t{0});
  }
  /// Chi-square, against equal frequencies.
  double deviation() const {
    const double expected = double(below(counts.size())) / double(counts.size());
    return std::accumulate(counts.begin(), counts.end(), 0.0, [&](double sum, size_t count) {
      return sum + (double(count) - expected) * (double(count) - expected) / expected;
    });
  }
  /// Compares groups of so many values.
  size_t in_common(const ByteCounts& other, size_t width) const {
    size_t common = 0;
    for (size_t i = 0; i < counts.size(); i += width)
      common += std::min(below(i + width) - below(i), other.below(i + width) - other.below(i));
    return common;
  }
};

bool are_swapped(const std::vector<uint16_t>& numbers) {
  const std::set<uint16_t> types(numbers.begin(), numbers.end());
  ByteCounts low, high;
  for (const uint16_t type : types) low.add(uint8_t(type)), high.add(uint8_t(type >> 8));
  const bool are_small_ids = low.below(1) == types.size() && types.size() >= fewest_ids;
  const bool are_ids_below_4096 = low.below(small_byte) == types.size() && high.varied() >= fewest_varied;
  const bool are_ids_of_words = types.size() >= fewest_types && low.below(small_byte) * 20 >= types.size() * 3 &&
                                high.below(small_byte) * 10 <= types.size();
  return numbers.size() >= fewest_numbers && (are_small_ids || are_ids_below_4096 || are_ids_of_words);
}

/// The two bytes are alike, and small or not of all values equally often, as those of random ids are. Numbers of twice
/// the same byte, such as 0 for padding, show nothing.
bool are_of_one_byte(const std::vector<uint16_t>& numbers) {
  ByteCounts low, high, equal;
  size_t all = 0;
  for (const uint16_t number : numbers) {
    if (uint8_t(number) == number >> 8) continue;
    low.add(uint8_t(number)), high.add(uint8_t(number >> 8));
    ++all;
  }
  if (all < fewest_for_likely || low.varied() < 3 || high.varied() < 3) return false;
  equal.counts.fill(all / equal.counts.size());
  const bool are_small = low.below(narrow_byte) == all && high.below(narrow_byte) == all;
  const size_t width = are_small ? 1 : 8, common = low.in_common(high, width);
  const size_t most = std::max(low.in_common(equal, width), high.in_common(equal, width));
  if (are_small) return common * 10 >= all * 8;
  return all >= fewest_of_all_bytes && common * 100 >= all * 93 && most * 100 <= all * 85;
}

/// Whether all values of the second bytes, and of the first ones, are as frequent as in random bytes.
bool are_random(const std::vector<uint16_t>& numbers) {
  ByteCounts low, high;
  for (const uint16_t number : numbers) low.add(uint8_t(number)), high.add(uint8_t(number >> 8));
  const double all = double(numbers.size());
  const auto is_flat = [&](const ByteCounts& bytes) { return bytes.deviation() <= 255 + all * most_deviation; };
  return numbers.size() >= fewest_random && is_flat(low) && is_flat(high);
}

/// Whether numbers just below 0, as int16, are frequent, different, and about as many as those just above it. The
/// last ids of a vocabulary are rare, but for a few special ones.
bool are_signed(const std::vector<uint16_t>& numbers) {
  std::set<uint16_t> different;
  size_t above = 0, below = 0;
  for (const uint16_t number : numbers) {
    if (number > 0 && number < small_sample) ++above;
    if (uint16_t(-number) >= small_sample || number == 0) continue;
    ++below;
    different.insert(number);
  }
  return std::min(above, below) * 100 >= numbers.size() * 3 && std::max(above, below) <= 2 * std::min(above, below) &&
         different.size() >= fewest_negative;
}

}  // namespace

std::string whole_floats(std::string_view bytes) {
  std::string found = whole_floats_of<uint64_t>(bytes, float64);
  if (found.empty()) found = whole_floats_of<uint32_t>(bytes, float32);
  for (const FloatFormat& format : {float16, bfloat16})
    if (found.empty()) found = whole_floats_of<uint16_t>(bytes, format);
  return found;
}

std::string swapped_ids(std::string_view bytes, const std::string& type, int64_t vocab_size) {
  if (vocab_size <= 0) return "";
  return type == "uint32" ? swapped_ids_of<uint32_t>(bytes, type, vocab_size)
                          : swapped_ids_of<uint16_t>(bytes, type, vocab_size);
}

std::string likely_foreign_numbers(std::string_view bytes) {
  const std::vector<uint16_t> numbers = numbers_from<uint16_t>(bytes);
  const std::string if_wrong = "; if they are ids of uint16 as they stand, set data.dtype = \"uint16\"";
  const auto are_wide = [&](size_t words, const FloatFormat& format) {
    return are_fractions(each(numbers, words - 1, words), format, are_spread(each(numbers, 0, words)));
  };
  const auto format = are_wide(4, float64)               ? &float64
                      : are_fractions(numbers, bfloat16) ? &bfloat16  // of which many are float16, too
                      : are_fractions(numbers, float16)  ? &float16
                      : are_wide(2, float32)             ? &float32
                                                         : nullptr;
  if (format) return floats(format->name, "they are small, with the fractions of such numbers") + if_wrong;
  if (are_swapped(numbers))
    return "begins like big-endian ids of uint16: the first byte of each is small more often than the second; " +
           std::string(in_little_endian_order) + "2\")" + if_wrong;
  if (are_of_one_byte(numbers))
    return "begins like ids of uint8: the same bytes are frequent as first and as second ones; save "
           "ids.astype(\"<u2\")" +
           if_wrong;
  if (are_random(numbers))
    return "begins like random bytes, as of an encrypted or compressed file: all values of the bytes are equally "
           "frequent, as in no token ids; unpack the file" +
           if_wrong;
  if (are_signed(numbers))
    return "begins like numbers of int16, such as sound: about as many are small negative ones as small positive ones; "
           "token ids are not negative: name another file" +
           if_wrong;
  return "";
}

}  // namespace wmtp
