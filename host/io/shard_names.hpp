// Sets of files that are numbered in their names: train-00000-of-00003.parquet, part_1_of_12.txt. A set that lacks
// files would otherwise be read as if it were the whole.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Paths of the files that complete the sets to which `files` belong, in order. The numbers of a set begin with 0,
/// unless it lacks that number and has its total; so do those of 0000.parquet, as the Hub names files. Error(data) if a
/// folder contains files of two totals of one set: two versions of it.
std::vector<std::filesystem::path> missing_shards(const std::vector<std::filesystem::path>& files);

/// For each set of `files` that are numbered without a total, as part-00000.txt and part-00002.txt, from 0 or 1, and
/// that lacks numbers: "FOLDER has no part-00001.txt, but files with lower and higher numbers; ...". Spark writes no
/// file for an empty part, so a gap may be right. Numbers count with leading zeros, or of parts, shards and chunks;
/// what exists, although it is not among `files`, is no gap. Of more than five such sets the others are counted.
std::vector<std::string> gaps_in_numbers(const std::vector<std::filesystem::path>& files);

}  // namespace wmtp
