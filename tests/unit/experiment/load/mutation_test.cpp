// Files with random mutations are loaded or refused, without crashes and other errors.
#include <random>

#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using Mutations = ExperimentFolder;

TEST_F(Mutations, OfAFileAreLoadedOrRefused) {
  write("b.toml", text_experiment);
  const std::string whole = with(text_experiment, "baseline", "rho1") +
                            "[reference]\nexperiment = \"b.toml\"\n[optimizer]\nbetas = [0.9, 0.95]\nlr = 3e-4\n";
  const std::vector<std::string> pieces{"\"",
                                        "'''",
                                        "[",
                                        "]]",
                                        "{",
                                        "}",
                                        "=",
                                        ".",
                                        ",",
                                        "\n",
                                        "nan",
                                        "-",
                                        "a.b.c",
                                        "\\u0000",
                                        "\xff",
                                        std::string(1, '\0'),
                                        "9999999999999999999",
                                        "[model]",
                                        "1e400",
                                        "true",
                                        "#",
                                        "{a=",
                                        "\xe2\x80\xae",
                                        "inf",
                                        "\\"};
  std::mt19937 random(20261121);
  const auto below = [&](size_t limit) { return random() % limit; };
  int read = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole;
    for (size_t edits = 1 + below(2); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(20));
          break;
        case 1:
          text.insert(at, pieces[below(pieces.size())]);
          break;
        case 2:
          text[at] = char(below(256));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
    }
    try {
      const Experiment e = load(text);
      load_experiment({write("again.toml", to_toml(e)), {}, known_plugin, {}});
      ++read;
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(error.status() == ExitStatus::usage || error.status() == ExitStatus::plugin) << error.what();
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace wmtp
