#include "data/records/record_order.hpp"

#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "data/window_order.hpp"

namespace wmtp {

namespace {

constexpr int64_t min_block = 64;
constexpr int64_t max_blocks = 1 << 16;  // bounds the table of an unlimited run

std::vector<double> normalised(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

BinOrder::BinOrder(int64_t seed, std::vector<double> start, std::vector<double> end, int64_t total)
    : seed_(seed),
      total_(total),
      block_size_(std::min(total, std::max(min_block, (total - 1) / max_blocks + 1))),
      start_(normalised(std::move(start))),
      end_(normalised(std::move(end))) {
  drawn_before_.emplace_back(start_.size(), 0);
  for (int64_t block = 0; block * block_size_ < total_; ++block) {
    std::vector<int64_t> next = drawn_before_.back();
    const std::vector<int64_t> places = block_places(block);
    for (size_t bin = 0; bin < next.size(); ++bin) next[bin] += places[bin];
    drawn_before_.push_back(std::move(next));
  }
}

/// Each bin's deficit relative to its share, rounded down; remaining places go to the bins with the largest remainders.
std::vector<int64_t> BinOrder::block_places(int64_t block) const {
  const int64_t begin = block * block_size_, end = std::min(begin + block_size_, total_);
  const double x = double(end), all = double(total_);
  const size_t bins = start_.size();
  std::vector<double> deficit(bins);
  std::vector<int64_t> places(bins), order;
  int64_t left = end - begin;
  for (size_t bin = 0; bin < bins; ++bin) {
    // The integral of the share from 0 to x.
    const double wanted = start_[bin] * x + (end_[bin] - start_[bin]) * x * x / (2 * all);
    deficit[bin] = wanted - double(drawn_before_.back()[bin]);
    places[bin] = std::clamp<int64_t>(int64_t(deficit[bin]), 0, left);
    deficit[bin] -= double(places[bin]);
    left -= places[bin];
    if (start_[bin] > 0 || end_[bin] > 0) order.push_back(int64_t(bin));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return deficit[size_t(a)] > deficit[size_t(b)]; });
  for (size_t next = 0; left > 0; --left, ++next) ++places[size_t(order[next % order.size()])];
  return places;
}

BinOrder::Draw BinOrder::at(int64_t position) const {
  const int64_t block = position / block_size_;
  const auto& before = drawn_before_[size_t(block)];
  const auto& after = drawn_before_[size_t(block + 1)];
  const int64_t size = std::min(block_size_, total_ - block * block_size_);
  const auto key = hash64(uint64_t(seed_), uint64_t(block));
  int64_t place = WindowOrder(int64_t(key >> 1), size, DataOrder::shuffled).window(position % block_size_);
  size_t bin = 0;
  while (place >= after[bin] - before[bin]) place -= after[bin] - before[bin], ++bin;
  return {int64_t(bin), before[bin] + place};
}

}  // namespace wmtp
