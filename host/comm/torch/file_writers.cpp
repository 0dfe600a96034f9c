#include "comm/torch/file_writers.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/secret.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The lowest rank of each host, in ascending order.
std::vector<int> first_ranks(const std::vector<RankLocation>& places) {
  std::vector<int> first;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const auto is_here = [&](int other) { return places[size_t(other)].host == places[rank].host; };
    if (std::none_of(first.begin(), first.end(), is_here)) first.push_back(int(rank));
  }
  return first;
}

/// A file in a folder; the destructor removes it.
class Mark {
 public:
  explicit Mark(fs::path path) : path_(std::move(path)) {
    make_folder_durably(path_.parent_path());
    write_new_file(path_, "");
  }
  ~Mark() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Mark(const Mark&) = delete;

 private:
  fs::path path_;
};

}  // namespace

FileWriters::FileWriters(std::vector<int> by_rank) : by_rank_(std::move(by_rank)) {
  if (std::all_of(by_rank_.begin(), by_rank_.end(), [](int writer) { return writer == 0; })) by_rank_.clear();
}

FileWriters::FileWriters(Peers& peers, const fs::path& folder) {
  const std::vector<int> first = first_ranks(peers.locations());
  if (first.size() == 1) return;
  constexpr const char* what = "comparing the hosts' files";
  // Not JSON: the bytes of a path need not be UTF-8.
  const std::string shared = peers.broadcast(what, random_token() + fs::absolute(folder).string());
  const size_t token_end = shared.find('/');
  const auto marker_path = [&](int rank) {
    return fs::path(shared.substr(token_end)) / (".rank-" + std::to_string(rank) + "-" + shared.substr(0, token_end));
  };
  std::optional<Mark> mark;
  const bool marks = std::count(first.begin(), first.end(), peers.rank()) > 0;
  peers.rethrow_on_all_ranks(what, failure_of([&] {
                               if (marks) mark.emplace(marker_path(peers.rank()));
                             }));  // afterwards all marks exist
  const auto seen = std::find_if(first.begin(), first.end(), [&](int rank) { return is_there(marker_path(rank)); });
  std::vector<int> by_rank;
  for (const std::string& writer : peers.gather(what, std::to_string(seen == first.end() ? peers.rank() : *seen)))
    by_rank.push_back(std::stoi(writer));
  *this = FileWriters(Json::parse(peers.broadcast(what, Json(by_rank).dump())).get<std::vector<int>>());
}

}  // namespace wmtp
