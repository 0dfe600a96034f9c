// [sweep]: one file that describes several runs. Each key is a key of the experiment with a list of values; the members
// are all combinations, the first key varying slowest. Each table in the list `members` sets several keys together; the
// list is combined with the others like another key.
//
//   [sweep]                                    [[sweep.members]]
//   seed = [1, 2, 3]                           model.dim = 128
//   optimizer.lr = [1e-3, 3e-4]                optimizer.lr = 1e-3
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/load/source_texts.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

struct SweepMember {
  std::vector<std::string> overrides;  ///< "optimizer.lr=0.001", like --set
  std::string
      suffix;  ///< of the run's name: "-lr-0.001"; without the seed, so that runs of one name differ in the seed
  std::string title = {};  ///< in messages; "": the file, if there are several, and the overrides
};

constexpr size_t max_sweep_members = 1000;

/// Empty without [sweep], whether in the file or in `overrides` (--set sweep.seed=[1,2]). The values are checked later,
/// when the members are loaded. Error(usage) with place and caret if a value is not a list, a list is empty or has a
/// value twice, two lists set a key, `overrides` set a key that the members set, or there are more than
/// max_sweep_members members.
std::vector<SweepMember> read_sweep(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                    SourceTexts& texts);

/// A value as TOML; a date or time as {}.
std::string toml_of(const Node& node);
/// The characters of `text` that a run's name may contain.
std::string name_part(const std::string& text);

}  // namespace wmtp
