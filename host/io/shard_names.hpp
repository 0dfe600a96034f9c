// Sets of files that are numbered in their names: train-00000-of-00003.parquet, part_1_of_12.txt. A set that lacks
// files would otherwise be read as if it were the whole.
#pragma once

#include <filesystem>
#include <vector>

namespace wmtp {

/// Paths of the files that complete the sets to which `files` belong, in order. The numbers of a set begin with 0,
/// unless it lacks that number and has its total. Error(data) if a folder contains files of two totals of one set: two
/// versions of it.
std::vector<std::filesystem::path> missing_shards(const std::vector<std::filesystem::path>& files);

}  // namespace wmtp
