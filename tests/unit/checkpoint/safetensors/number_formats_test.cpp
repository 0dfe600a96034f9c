#include "checkpoint/safetensors/number_formats.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

/// By the definition of the format, field by field.
double value_of_half(uint16_t bits) {
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

uint16_t bf16(float value) {
  uint16_t bits;
  to_bf16(&value, 1, &bits);
  return bits;
}

}  // namespace

TEST(NumberFormats, EveryHalfHasTheValueOfItsFields) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> values(halves.size());
  to_float("F16", reinterpret_cast<const uint8_t*>(halves.data()), 65536, values.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const double wanted = value_of_half(halves[i]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(values[i], wanted) << i;
      ASSERT_EQ(std::signbit(values[i]), i >> 15 == 1) << i;
    }
  }
}

TEST(NumberFormats, ReadsUnalignedBytes) {
  std::vector<uint8_t> bytes{0, 0x80, 0x3f, 0, 0xc0};  // bf16 1 and -2, one byte late
  float values[2];
  to_float("BF16", bytes.data() + 1, 2, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
}

TEST(NumberFormats, Bf16RoundsToNearestTiesToEven) {
  EXPECT_EQ(bf16(1.0f), 0x3f80);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80) << "a tie goes down to the even one";
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82) << "a tie goes up to the even one";
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80) << "beyond the largest is infinity";
  EXPECT_EQ(bf16(-0.0f), 0x8000);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x7f800001u)) & 0x7fff, 0x7fc0) << "a NaN stays one";
}

TEST(NumberFormats, RefusesIntegerWeights) {
  for (const char* dtype : {"I32", "F64", "F8_E4M3", "BOOL", "f32"}) EXPECT_FALSE(is_weight_dtype(dtype)) << dtype;
}

TEST(NumberFormats, TheFirstNumberThatIsNotFiniteIsFoundAnywhere) {
  for (const std::string dtype : {"F16", "BF16"}) {
    int64_t not_finite = 0;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = uint16_t(bits);
      float number = 0;
      to_float(dtype, reinterpret_cast<const uint8_t*>(&half), 1, &number);
      ASSERT_EQ(first_not_finite(dtype, reinterpret_cast<const uint8_t*>(&half), 1), std::isfinite(number) ? 1 : 0)
          << dtype << " " << bits;
      not_finite += std::isfinite(number) ? 0 : 1;
    }
    EXPECT_EQ(not_finite, dtype == "F16" ? 2048 : 256);
  }
  constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  for (const float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")})
    for (const int64_t at : {0, 1, 255, 256, 700, 1000}) {
      std::vector<float> values(1001, -largest);
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      EXPECT_EQ(first_not_finite("F32", bytes, 1001), 1001);
      values[size_t(at)] = values[1000] = bad;
      EXPECT_EQ(first_not_finite("F32", bytes, 1001), at);
    }
}

}  // namespace wmtp::test
