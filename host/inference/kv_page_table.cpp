#include "inference/kv_page_table.hpp"

#include "model/chunks.hpp"

namespace wmtp {
namespace {

int64_t pages_for(int64_t positions) { return (positions + keys_per_panel - 1) / keys_per_panel; }

}  // namespace

KvPageTable::KvPageTable(int64_t texts, int64_t positions)
    : pages_(size_t(texts)), users_(size_t(texts * pages_for(positions)), 0) {
  for (int64_t page = count() - 1; page >= 0; --page) free_.push_back(page);
}

int64_t KvPageTable::take() {
  const int64_t page = free_.back();
  free_.pop_back();
  users_[size_t(page)] = 1;
  return page;
}

std::vector<std::pair<int64_t, int64_t>> KvPageTable::make_writable(int64_t text, int64_t begin, int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> copies;
  std::vector<int64_t>& own = pages_[size_t(text)];
  for (size_t i = size_t(begin / keys_per_panel); i < own.size(); ++i) {
    if (users_[size_t(own[i])] == 1) continue;
    --users_[size_t(own[i])];
    copies.emplace_back(own[i], take());
    own[i] = copies.back().second;
  }
  while (int64_t(own.size()) < pages_for(end)) own.push_back(take());
  return copies;
}

void KvPageTable::share(int64_t from, int64_t to, int64_t length) {
  shorten(to, 0);
  const std::vector<int64_t>& source = pages_[size_t(from)];
  pages_[size_t(to)].assign(source.begin(), source.begin() + pages_for(length));
  for (const int64_t page : pages(to)) ++users_[size_t(page)];
}

void KvPageTable::shorten(int64_t text, int64_t length) {
  std::vector<int64_t>& own = pages_[size_t(text)];
  for (; int64_t(own.size()) > pages_for(length); own.pop_back())
    if (--users_[size_t(own.back())] == 0) free_.push_back(own.back());
}

}  // namespace wmtp
