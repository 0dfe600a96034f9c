#include "data/records/record_packs.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace wmtp {

RecordPacks::RecordPacks(const std::vector<RecordEntry>& entries, const std::vector<int64_t>& chosen,
                         int64_t sequence_length) {
  const auto length = [&](int64_t record) { return int64_t(entries[size_t(record)].length); };
  std::vector<int64_t> by_length = chosen;
  std::stable_sort(by_length.begin(), by_length.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::map<int64_t, std::vector<int64_t>> with_room;  // packs by the number of tokens that still fit
  std::vector<int64_t> pack_of(by_length.size());
  begins_ = {0};  // holds sizes until all packs are known
  for (size_t i = 0; i < by_length.size(); ++i) {
    const int64_t needed = length(by_length[i]);
    int64_t pack = count(), room = sequence_length;
    if (const auto fullest = with_room.lower_bound(needed); fullest != with_room.end()) {
      room = fullest->first;
      pack = fullest->second.back();
      fullest->second.pop_back();
      if (fullest->second.empty()) with_room.erase(fullest);
    } else {
      begins_.push_back(0);
    }
    pack_of[i] = pack;
    ++begins_[size_t(pack) + 1];
    if (room > needed) with_room[room - needed].push_back(pack);
  }
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
  records_.resize(by_length.size());
  for (size_t i = 0; i < by_length.size(); ++i) records_[size_t(next[size_t(pack_of[i])]++)] = by_length[i];
}

std::span<const int64_t> RecordPacks::records(int64_t pack) const {
  const auto begin = size_t(begins_[size_t(pack)]), end = size_t(begins_[size_t(pack) + 1]);
  return std::span(records_).subspan(begin, end - begin);
}

}  // namespace wmtp
