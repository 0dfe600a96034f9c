// Lines of ranks, for meshes of up to 1,024 ranks: each rank is in one line of each kind, and all members of a line
// agree about it.
#include "comm/rank_mesh.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace wmtp {
namespace {

using Lines = std::set<std::vector<int>>;

std::vector<int> members(int rank, const RankAxis& line) {
  std::vector<int> all;
  for (int i = 0; i < line.size; ++i) all.push_back(rank + (i - line.rank) * line.stride);
  return all;
}

/// The lines of all ranks; fails unless each rank is in exactly one of them, at the position that it states.
Lines lines_of(int ranks, const std::function<RankAxis(int rank)>& line_of) {
  Lines lines;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankAxis line = line_of(rank);
    const std::vector<int> all = members(rank, line);
    EXPECT_EQ(all.at(size_t(line.rank)), rank);
    EXPECT_GE(all.front(), 0);
    EXPECT_LT(all.back(), ranks);
    lines.insert(all);
  }
  size_t count = 0;
  for (const auto& line : lines) count += line.size();
  EXPECT_EQ(int(count), ranks) << "lines overlap";
  return lines;
}

TEST(RankMesh, NumbersTheTensorAxisFastest) {
  const auto lines = [](auto line) { return lines_of(8, [line](int rank) { return line(RankMesh(rank, 8, 2, 2)); }); };
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.tensor(); }), (Lines{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.attention(); }), (Lines{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.same_sequences(); }), (Lines{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.shard(8, false); }), (Lines{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.shard(8, true); }), (Lines{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.shard(4, true); }), (Lines{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.replicate(4, true); }),
            (Lines{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(lines([](const RankMesh& mesh) { return mesh.replicate(1, true); }), (Lines{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(RankMesh, OfOneRankPerSequenceHasConsecutiveShardGroupsAndReplicasAcrossThem) {
  const auto mesh = [](int rank) { return RankMesh(rank, 6, 1, 1); };
  EXPECT_EQ(lines_of(6, [&](int rank) { return mesh(rank).shard(2, false); }), (Lines{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(lines_of(6, [&](int rank) { return mesh(rank).replicate(2, false); }), (Lines{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(lines_of(6, [&](int rank) { return mesh(rank).shard(1, false); }).size(), 6U);
}

TEST(RankMesh, GivesEachRankOneLineOfEachKindUpToAThousandRanks) {
  for (const int ranks : {1, 8, 48, 1024})
    for (const int sequence : {1, 2, 4, 8})
      for (const int tensor : {1, 2, 4, 8}) {
        if (ranks % (sequence * tensor) != 0) continue;
        const auto lines = [&](auto line) {
          return lines_of(ranks, [&](int rank) { return line(RankMesh(rank, ranks, sequence, tensor)); });
        };
        const auto sequences = lines([](const RankMesh& mesh) { return mesh.same_sequences(); });
        EXPECT_EQ(int(sequences.begin()->size()), sequence * tensor);
        EXPECT_EQ(int(lines([](const RankMesh& mesh) { return mesh.tensor(); }).begin()->size()), tensor);
        EXPECT_EQ(int(lines([](const RankMesh& mesh) { return mesh.attention(); }).begin()->size()), sequence);
        for (const int group : {1, 8, ranks})
          for (const bool is_cut : {false, true}) {
            if (ranks % group != 0 || (group > 1 && group % tensor != 0)) continue;
            const auto shard = lines([&](const RankMesh& mesh) { return mesh.shard(group, is_cut); });
            const auto replicate = lines([&](const RankMesh& mesh) { return mesh.replicate(group, is_cut); });
            const int pieces = is_cut ? tensor : 1;
            EXPECT_EQ(int(shard.begin()->size() * replicate.begin()->size()) * pieces, ranks)
                << "every element of a piece has its replicas";
          }
      }
}

}  // namespace
}  // namespace wmtp
