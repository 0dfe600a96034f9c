// fuzz [--runs N] [--seed S] [FILE…]: runs every target on its seeds, on their mutations and on the given files (old
// crashes, a corpus). The same --seed gives the same inputs. An input that crashes is saved as fuzz-crash-TARGET.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>

#include "targets.hpp"

namespace wmtp::fuzz {
namespace {

std::string mutated(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> words{"{",
                                              "}",
                                              "[",
                                              "]",
                                              ",",
                                              ":",
                                              "\"",
                                              "-1",
                                              "0",
                                              "1e999",
                                              "null",
                                              "true",
                                              "9223372036854775807",
                                              "18446744073709551616",
                                              "\\u0000",
                                              "\xc3"};
  for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
    if (text.empty()) text.push_back('{');
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = char(random());
        break;
      case 1:
        text.erase(at, random() % 9);
        break;
      case 2:
        text.insert(at, words[random() % words.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 60));
        break;
    }
  }
  return text;
}

bool survives(const Target& target, const std::string& input) {
  try {
    target.run(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    return true;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", target.name, failure.what());
  }
  std::ofstream(std::string("fuzz-crash-") + target.name, std::ios::binary) << input;
  return false;
}

int run(int argc, char** argv) {
  long runs = 20'000;
  uint64_t seed = 1;
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = std::atol(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  bool good = true;
  for (const Target& target : targets()) {
    std::vector<std::string> inputs = target.seeds;
    inputs.insert(inputs.end(), corpus.begin(), corpus.end());
    for (const std::string& input : inputs) good &= survives(target, input);
    std::mt19937_64 random(seed);
    for (long i = 0; i < runs && good; ++i) good &= survives(target, mutated(inputs[random() % inputs.size()], random));
    std::printf("%s: %ld mutations %s\n", target.name, runs, good ? "read or refused" : "FAILED");
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace wmtp::fuzz

int main(int argc, char** argv) { return wmtp::fuzz::run(argc, argv); }
