#include "data/tokens/token_id_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/random.hpp"
#include "base/text.hpp"
#include "data/tokens/token_windows.hpp"
#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class IdLayouts : public DataTest {
 protected:
  /// The ids of a file as one window.
  std::vector<int64_t> ids_of(const std::filesystem::path& file, const std::string& dtype = "") const {
    const bool is_raw = dtype.empty() && !token_id_layout(file, "").offset && !has_megatron_index(file);
    const int64_t vocab_size = is_raw ? 65536 : 1 << 20;
    std::vector<int64_t> ids(size_t(token_id_layout(file, dtype).count));
    open_token_file(file, dtype, int64_t(ids.size()), vocab_size)->read(0, ids.data());
    return ids;
  }
  std::string refused(const std::filesystem::path& file, const std::string& dtype = "") const {
    return error_of(ExitStatus::data, [&] { ids_of(file, dtype); });
  }

  static std::string numpy(const std::string& descr, const std::string& shape, const std::string& data,
                           char version = 1) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118 - (version > 1 ? 2 : 0), ' ');
    header.back() = '\n';
    std::string length = bytes_of<uint32_t>({uint32_t(header.size())});
    if (version == 1) length.resize(2);
    return std::string("\x93NUMPY") + version + '\0' + length + header + data;
  }

  struct Index {
    uint64_t version = 1;
    uint8_t type = 8;
    std::vector<int32_t> lengths{2, 3};
    std::vector<int64_t> offsets{0, 4}, documents{0, 1, 2};
  };
  void write_index(const Index& index) const {
    write("ids.idx", std::string("MMIDIDX\0\0", 9) + bytes_of<uint64_t>({index.version}) + char(index.type) +
                         bytes_of<uint64_t>({index.lengths.size(), index.documents.size()}) + bytes_of(index.lengths) +
                         bytes_of(index.offsets) + bytes_of(index.documents));
  }
};

using Ids = std::vector<int64_t>;

TEST_F(IdLayouts, OfNumpyAreReadFromItsHeader) {
  EXPECT_EQ(ids_of(write("a.npy", numpy("<u2", "(3,)", bytes_of<uint16_t>({1, 65535, 3})))), (Ids{1, 65535, 3}));
  EXPECT_EQ(ids_of(write("a.npy", numpy("<u4", "(2,)", bytes_of<uint32_t>({1, 100000})))), (Ids{1, 100000}));
  EXPECT_EQ(ids_of(write("a.npy", numpy("<i4", "(2,)", bytes_of<int32_t>({1, 100000})))), (Ids{1, 100000}));
  EXPECT_EQ(ids_of(write("a.npy", numpy("<i8", "(2,)", bytes_of<int64_t>({1, 100000}), 2))), (Ids{1, 100000}));
}

TEST_F(IdLayouts, OfNumpyThatCannotBeIdsAreRefused) {
  const auto one = [&](const std::string& bytes) { return refused(write("a.npy", bytes)); };
  const std::string data = bytes_of<uint32_t>({1, 2});
  EXPECT_TRUE(has(one(numpy("<f4", "(2,)", data)), "type \"<f4\", wanted <u2, <u4, <i4 or <i8"));
  EXPECT_TRUE(has(one(numpy(">u4", "(2,)", data)), "type \">u4\""));
  EXPECT_TRUE(has(one(numpy("<u4", "(1, 2)", data)), "shape \"(1, 2)\", wanted one dimension"));
  EXPECT_TRUE(has(one(numpy("<u4", "()", data)), "wanted one dimension"));
  EXPECT_TRUE(has(one(numpy("<u4", "(3,)", data)), "3 ids by its header, which does not match its size"));
  EXPECT_TRUE(has(one(numpy("<u4", "(4611686018427387905,)", data)), "does not match its size")) << "no overflow";
  EXPECT_TRUE(has(one("\x93NUMPY\x01"), "a damaged header"));
  EXPECT_TRUE(has(one(numpy("<u4", "(2,)", data).substr(0, 40)), "a damaged header"));
  EXPECT_TRUE(has(one(numpy("<u4", "(2,)", data).replace(6, 1, "\x09")), "a damaged header"));
  EXPECT_TRUE(has(one(numpy("<i4", "(2,)", bytes_of<int32_t>({1, -5}))), "position 1: id -5 is negative"));
}

TEST_F(IdLayouts, OfNumpyWithLongHeadersAreRefusedWithoutRecursion) {
  const auto one = [&](const std::string& descr, const std::string& shape) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
    std::string length = bytes_of<uint16_t>({uint16_t(header.size())});
    return refused(write("a.npy", std::string("\x93NUMPY\x01\0", 8) + length + header));
  };
  const std::string spaces(60'000, ' ');
  EXPECT_TRUE(has(one(std::string(60'000, 'u'), "2,"), "is a NumPy array of type \"uuu"));
  EXPECT_TRUE(has(one("<u4", std::string(60'000, '1')), "is a NumPy array of shape \"(111"));
  const std::string open = "{'descr': " + std::string(60'000, ' ');
  EXPECT_TRUE(has(
      refused(write("a.npy", std::string("\x93NUMPY\x01\0", 8) + bytes_of<uint16_t>({uint16_t(open.size())}) + open)),
      "type \"unknown\""));
}

TEST_F(IdLayouts, OfMegatronAreReadFromTheIndexBesideThem) {
  write("ids.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5}));
  write_index({});
  EXPECT_EQ(ids_of(at("ids.bin")), (Ids{1, 2, 3, 4, 5}));
  write("ids.bin", bytes_of<int32_t>({1, 2, 3, 4, 500000}));
  write_index({.type = 4, .offsets = {0, 8}});
  EXPECT_EQ(ids_of(at("ids.bin")), (Ids{1, 2, 3, 4, 500000}));
  EXPECT_TRUE(has(refused(at("ids.bin"), "uint16"), "contains int32 ids by its header, but data.dtype is different"));
  EXPECT_TRUE(has(refused(at("ids.idx")), "set data.file to the .bin file beside it"));
}

TEST_F(IdLayouts, OfMegatronThatDoNotMatchTheirIndexAreRefused) {
  write("ids.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5}));
  const auto with = [&](const Index& index) {
    write_index(index);
    return refused(at("ids.bin"));
  };
  EXPECT_TRUE(has(with({.version = 2}), "has version 2, wanted 1"));
  EXPECT_TRUE(has(with({.type = 7}), "has ids of type 7, wanted 8 (uint16)"));
  EXPECT_TRUE(has(with({.lengths = {2, 4}}), "6 ids together, but the file has 10 bytes"));
  EXPECT_TRUE(has(with({.lengths = {-2, 3}}), "places sequence 0"));
  EXPECT_TRUE(has(with({.offsets = {0, 6}}), "places sequence 1 at byte 6, wanted 4"));
  write_index({});
  std::filesystem::resize_file(at("ids.idx"), 60);
  EXPECT_TRUE(has(refused(at("ids.bin")), "60 bytes, which do not match its header of 2 sequences and 3 documents"));
  write("ids.idx", std::string("MMIDIDX\0\0", 9));
  EXPECT_TRUE(has(refused(at("ids.bin")), "is truncated"));
  write("ids.idx", "another index");
  EXPECT_EQ(ids_of(at("ids.bin")), (Ids{1, 2, 3, 4, 5})) << "raw ids";
  write("ids.idx", std::string("TNTIDX\0\0", 8));
  EXPECT_TRUE(
      has(refused(at("ids.bin")), "ids.idx, the index of " + at("ids.bin") + ", is of fairseq or of Megatron's"));
}

TEST_F(IdLayouts, WithoutAHeaderNeedATypeAboveTheVocabularyOfUint16) {
  const auto file = write("ids.bin", bytes_of<uint16_t>({1, 2, 3, 4}));
  EXPECT_EQ(token_id_layout(file, "", 65536).count, 4);
  const auto text = error_of(ExitStatus::data, [&] { token_id_layout(file, "", 65537); });
  EXPECT_TRUE(has(text,
                  "has no header that states the type of its ids, and a vocabulary of 65,537 is larger than uint16's; "
                  "set data.dtype = \"uint32\""))
      << text;
  EXPECT_EQ(token_id_layout(file, "uint32", 65537).count, 2);
}

TEST_F(IdLayouts, WithoutAHeaderAreNotReadAsHalvesOfWiderIds) {
  std::vector<uint32_t> wide;
  std::vector<int64_t> widest;
  std::vector<uint16_t> narrow;
  for (uint32_t i = 0; i < 200; ++i) {
    wide.push_back(i * 7919 % 70000);
    widest.push_back(i * 7919 % 70000);
    narrow.push_back(i * 7919 % 50000);
  }
  for (const std::string& bytes : {bytes_of(wide), bytes_of(widest)})
    EXPECT_TRUE(
        has(refused(write("ids.raw", bytes)), "begins like ids of uint32 or int64: each second word is below 16"));
  EXPECT_EQ(ids_of(write("ids.raw", bytes_of(wide)), "uint32").size(), 200u);
  EXPECT_TRUE(has(refused(write("ids.raw", bytes_of(widest)), "uint32"),
                  "begins like ids of int64: each second id of uint32 is 0; save ids.astype(\"<u4\"), or as .npy"));
  EXPECT_EQ(ids_of(write("ids.raw", bytes_of(narrow))).size(), 200u);
  EXPECT_EQ(ids_of(write("ids.raw", std::string(400, '\1'))).size(), 200u) << "few different ids";
}

TEST_F(IdLayouts, WithoutAHeaderAreWiderIfEachSecondWordIsZero) {
  std::vector<uint32_t> wide;  // of bytes or characters
  std::vector<int64_t> widest;
  std::string big_endian;
  for (uint32_t i = 0; i < 200; ++i) {
    wide.push_back(i * 7919 % 65);
    widest.push_back(i * 7919 % 65);
    big_endian += {'\0', '\0', char(i * 7919 % 50000 >> 8), char(i * 7919 % 50000)};
  }
  for (const std::string& bytes : {bytes_of(wide), bytes_of(widest)})
    EXPECT_TRUE(has(refused(write("ids.raw", bytes)), "begins like ids of uint32 or int64"));
  EXPECT_TRUE(has(refused(write("ids.raw", big_endian)), "begins like big-endian ids of uint32 or int64"));
  EXPECT_EQ(ids_of(write("ids.raw", bytes_of(wide)), "uint16").size(), 400u) << "as data.dtype says";
  EXPECT_EQ(ids_of(write("ids.raw", std::string(400, '\0'))).size(), 200u) << "one id";
}

template <class T, class Id>
std::vector<T> as_numbers(const std::vector<Id>& ids) {
  return {ids.begin(), ids.end()};
}

template <class T>
std::string big_endian(std::vector<T> ids) {
  std::string bytes = bytes_of(ids);
  for (size_t at = 0; at < bytes.size(); at += sizeof(T))
    std::reverse(bytes.begin() + ptrdiff_t(at), bytes.begin() + ptrdiff_t(at + sizeof(T)));
  return bytes;
}

/// The first 16 bits of floats, in which bfloat16 has all of them; whole ones as float16 writes them.
std::vector<uint16_t> first_halves(const std::vector<float>& numbers) {
  std::vector<uint16_t> halves;
  for (const float number : numbers) halves.push_back(uint16_t(std::bit_cast<uint32_t>(number) >> 16));
  return halves;
}
std::vector<uint16_t> as_float16(const std::vector<float>& numbers) {
  std::vector<uint16_t> halves;
  for (const float number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(number);
    const int exponent = int(bits >> 23 & 0xff) - 127 + 15;
    halves.push_back(uint16_t((bits >> 16 & 0x8000) | (exponent <= 0 ? 0 : exponent << 10 | (bits >> 13 & 0x3ff))));
  }
  return halves;
}

/// Ids as of words: the square makes small ones frequent.
std::vector<uint16_t> ids_of_words(int64_t count, int64_t vocab_size) {
  std::vector<uint16_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const double uniform = double(hash64(7, uint64_t(i)) >> 11) / double(uint64_t{1} << 53);
    ids.push_back(uint16_t(uniform * uniform * uniform * double(vocab_size)));
  }
  return ids;
}

TEST_F(IdLayouts, WithoutAHeaderAreNoFloats) {
  for (const int64_t vocab_size : {5, 65, 1000, 50000}) {
    const auto floats = as_numbers<float>(ids_of_words(400, vocab_size));
    const auto doubles = as_numbers<double>(ids_of_words(400, vocab_size));
    for (const std::string dtype : {"", "uint16", "uint32"}) {
      const auto one = [&](const std::string& bytes) { return refused(write("ids.raw", bytes), dtype); };
      EXPECT_TRUE(has(one(bytes_of(floats)), "begins like numbers of float32: each is a whole number")) << vocab_size;
      EXPECT_TRUE(has(one(bytes_of(doubles)), "begins like numbers of float64: each is a whole number"));
      EXPECT_TRUE(has(one(big_endian(floats)), "begins like numbers of big-endian float32"));
      EXPECT_TRUE(has(one(bytes_of(floats)), "; token ids are whole numbers: save numbers.astype(\"<u2\")"));
      if (vocab_size == 50000 || vocab_size == 5) continue;  // above its largest whole numbers; too few
      EXPECT_TRUE(has(one(bytes_of(as_float16(floats))), "begins like numbers of float16: each is a whole number"));
    }
  }
  const auto few = as_numbers<float>(ids_of_words(400, 200));
  EXPECT_TRUE(has(refused(write("ids.raw", bytes_of(first_halves(few)))), "begins like numbers of bfloat16"));
}

TEST_F(IdLayouts, WithoutAHeaderAreNoWeights) {
  std::vector<float> weights;
  std::vector<double> doubles;
  for (uint64_t i = 0; i < 2000; ++i) {
    double sum = -6;
    for (uint64_t k = 0; k < 12; ++k) sum += double(hash64(i, k) >> 11) / double(uint64_t{1} << 53);
    weights.push_back(float(doubles.emplace_back(sum * 0.02)));
  }
  const auto expect_refused = [&](const std::string& bytes, const std::string& name) {
    const auto text = refused(write("ids.raw", bytes));
    EXPECT_TRUE(has(text, "begins like numbers of " + name + ": they are small, with the fractions of such numbers"))
        << text;
    EXPECT_TRUE(has(text, "; if they are ids of uint16 as they stand, set data.dtype = \"uint16\"")) << text;
    EXPECT_EQ(token_id_layout(at("ids.raw"), "uint16").type, "uint16");
  };
  expect_refused(bytes_of(weights), "float32");
  expect_refused(bytes_of(as_float16(weights)), "float16");
  expect_refused(bytes_of(first_halves(weights)), "bfloat16");
  for (float& weight : weights) weight = std::abs(weight);
  expect_refused(bytes_of(weights), "float32");
  for (double& number : doubles) number = std::abs(number);
  expect_refused(bytes_of(doubles), "float64");
}

TEST_F(IdLayouts, WithoutAHeaderAreNotBigEndian) {
  for (const int64_t vocab_size : {5, 65, 258, 4000, 32000, 50257}) {
    const auto ids = ids_of_words(20000, vocab_size);
    EXPECT_TRUE(has(refused(write("ids.raw", big_endian(ids))), "begins like big-endian ids of uint16")) << vocab_size;
    EXPECT_EQ(ids_of(write("ids.raw", bytes_of(ids))).size(), ids.size()) << vocab_size;
    for (const std::string dtype : {"", "uint16"}) {
      const auto text =
          error_of(ExitStatus::data, [&] { token_id_layout(write("ids.raw", big_endian(ids)), dtype, vocab_size); });
      EXPECT_TRUE(has(text, "are not below the vocabulary's size " + with_thousands(vocab_size) +
                                ", but all are with their bytes swapped; save them in little-endian order: "
                                "ids.astype(\"<u2\")"))
          << text;
    }
    const auto wide = as_numbers<uint32_t>(ids);
    const auto text =
        error_of(ExitStatus::data, [&] { token_id_layout(write("ids.raw", big_endian(wide)), "uint32", vocab_size); });
    EXPECT_TRUE(has(text, "of uint32 are not below") && has(text, "ids.astype(\"<u4\")")) << text;
  }
}

TEST_F(IdLayouts, WithoutAHeaderAreNotOfOneByte) {
  std::string residues;
  for (uint64_t i = 0; i < 4000; ++i) residues += char(hash64(3, i) % 25);
  EXPECT_TRUE(has(refused(write("ids.raw", residues)), "begins like ids of uint8: the same bytes are frequent"));
  std::string of_all;
  for (uint64_t i = 0; i < 40000; ++i)
    of_all += char(std::min({hash64(4, i) % 256, hash64(5, i) % 256, hash64(6, i) % 256}));
  EXPECT_TRUE(has(refused(write("ids.raw", of_all)), "begins like ids of uint8: the same bytes are frequent"));
}

TEST_F(IdLayouts, WithoutAHeaderAreNoSound) {
  for (const double loudness : {0.001, 0.02, 0.2}) {
    std::vector<uint16_t> samples;
    for (uint64_t i = 0; i < 20000; ++i) {
      const double noise = double(hash64(1, i) >> 11) / double(uint64_t{1} << 53) - 0.5;
      const double speech = std::sin(double(i) / 13) * std::sin(double(i) / 700) * std::sin(double(i) / 3000);
      samples.push_back(uint16_t(int16_t(32767 * loudness * (speech + noise / 4))));
    }
    const auto text = refused(write("ids.raw", bytes_of(samples)));
    EXPECT_TRUE(has(text, "begins like numbers of int16, such as sound") && has(text, "data.dtype = \"uint16\""))
        << text;
    EXPECT_EQ(token_id_layout(at("ids.raw"), "uint16").type, "uint16");
  }
}

TEST_F(IdLayouts, WithoutAHeaderAreNoRandomBytes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<uint64_t> words(seed % 2 ? 2048 : 8192);
    for (uint64_t i = 0; i < words.size(); ++i) words[i] = hash64(seed, i);
    const auto text = refused(write("ids.bin", bytes_of(words)));
    ASSERT_TRUE(has(text, "begins like random bytes, as of an encrypted or compressed file") &&
                has(text, "unpack the file; if they are ids of uint16 as they stand, set data.dtype = \"uint16\""))
        << seed << text;
  }
  EXPECT_EQ(token_id_layout(at("ids.bin"), "uint16").count, 8192);
  std::string packed;  // a stream of deflate, without the header of gzip
  for (uint64_t i = 0; i < 30000; ++i)
    packed += printed("%llu ", static_cast<unsigned long long>(hash64(2, i) % 99991));
  EXPECT_TRUE(has(refused(write("ids.bin", gzip(packed).substr(10))), "begins like random bytes"));
}

TEST_F(IdLayouts, WithoutAHeaderMayBeUnusual) {
  std::vector<std::vector<uint16_t>> files(11);
  for (uint64_t i = 0; i < 20000; ++i) {
    files[0].push_back(uint16_t(hash64(1, i) % (i % 16 ? 65536 : 1)));           // any of 65,536, and often 0
    files[1].push_back(uint16_t(hash64(1, i) % 1024 + i % 8 * 1024));            // of a codec with 8 codebooks
    files[2].push_back(uint16_t(hash64(1, i) % 1024 + i % 2 * 16384));           // of two vocabularies
    files[3].push_back(uint16_t(i % 10 < 7 ? 0x8002 : hash64(1, i)));            // mostly padding
    files[4].push_back(uint16_t(15360 + hash64(1, i) % 8192));                   // of images in a larger vocabulary
    files[5].push_back(uint16_t(hash64(1, i) % 4));                              // of bases
    files[6].push_back(uint16_t(hash64(1, i) % 3 * 16384));                      // of few
    files[7].push_back(uint16_t(i % 20000));                                     // of each once
    files[8].push_back(uint16_t(hash64(2, i) % 20 ? 0 : hash64(1, i) % 50257));  // mostly padding, of 0
    files[9].push_back(uint16_t(i % 3 ? 0xffff - i % 2 : hash64(1, i) % 300));   // with the last ids as marks
    files[10].push_back(uint16_t(hash64(1, i) % 60000));                         // of a vocabulary of 60,000
  }
  for (const auto& ids : files)
    EXPECT_EQ(ids_of(write("ids.raw", bytes_of(ids))).size(), ids.size()) << &ids - &files[0];
}

TEST_F(IdLayouts, OfLlmCHaveTheTypeOfTheirHeader) {
  std::vector<int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = 2;
  const auto file = write("ids.bin", bytes_of(header) + bytes_of<uint32_t>({70000, 3}));
  EXPECT_EQ(ids_of(file), (Ids{70000, 3}));
  EXPECT_TRUE(has(refused(file, "uint16"), "set data.dtype = \"uint32\", or remove it"));
  header.resize(100);
  EXPECT_TRUE(
      has(refused(write("ids.bin", bytes_of(header) + std::string(1000, '\1'))), "declares 2 ids, but 94 follow"))
      << "a shorter header";
}

}  // namespace
}  // namespace wmtp
