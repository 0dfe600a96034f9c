// KvPageTable: which pages of the caches hold the positions of each text. Texts share pages until one of them writes to
// them, so that many answers to a prompt keep one copy of its keys and values, in memory and in the processor's cache.
// Numbers only; the caches are CachedBlock's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace wmtp {

class KvPageTable {
 public:
  /// Enough pages for `positions` of each text without sharing.
  KvPageTable(int64_t texts, int64_t positions);

  int64_t count() const { return int64_t(users_.size()); }
  /// The text's pages in the order of its positions, keys_per_panel (model/chunks.hpp) in each.
  const std::vector<int64_t>& pages(int64_t text) const { return pages_[size_t(text)]; }

  /// Makes positions begin … end-1 writable: takes free pages, and replaces pages that other texts use too. Returns
  /// which pages to copy: from, to. Everything before `begin` exists.
  std::vector<std::pair<int64_t, int64_t>> make_writable(int64_t text, int64_t begin, int64_t end);
  /// Text `to` shares the pages of the first `length` positions of text `from`, instead of its own.
  void share(int64_t from, int64_t to, int64_t length);
  /// Gives back the pages from position `length` on.
  void shorten(int64_t text, int64_t length);

 private:
  int64_t take();

  std::vector<std::vector<int64_t>> pages_;  ///< of each text
  std::vector<int64_t> users_;               ///< number of texts that use each page
  std::vector<int64_t> free_;
};

}  // namespace wmtp
