// [sweep]: one file that stands for many runs. Each key of it is a key of the experiment with a list of values; the
// members are all their combinations, the first key slowest. An entry of `members`, a list of tables, gives the values
// of several keys that go together; they are combined with the lists like one more key.
//
//   [sweep]                                    [[sweep.members]]
//   seed = [1, 2, 3]                           model.dim = 128
//   optimizer.lr = [1e-3, 3e-4]                optimizer.lr = 1e-3
//
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/source_texts.hpp"

namespace wmtp {

struct SweepMember {
  std::vector<std::string> overrides;  ///< "optimizer.lr=0.001", as for --set
  std::string suffix;  ///< for the run's name: "-lr-0.001"; the seed is left out, so that runs of one name differ in it
};

constexpr size_t most_sweep_members = 1000;

/// Empty where the file has no [sweep]. Values are checked when the members are loaded. Error(usage) with place and
/// caret for a value that is no list, an empty list, and more members than there may be.
std::vector<SweepMember> read_sweep(const std::filesystem::path& file, SourceTexts& texts);

}  // namespace wmtp
