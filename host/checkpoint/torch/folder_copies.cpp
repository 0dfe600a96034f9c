#include "checkpoint/torch/folder_copies.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/verify.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"
#include "memory/allocator.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t bytes_at_once = 16 << 20;
constexpr const char* copying = "copying files between the hosts";

struct Copy {
  std::string name;
  int64_t bytes = 0;
  int from = 0;  ///< a writer that has it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Copy, name, bytes, from)

/// The files that some writer lacks. `found`: by rank, the files that each writer has; null for other ranks.
std::vector<Copy> planned_copies(const fs::path& folder, const Manifest& manifest, const std::vector<Json>& found) {
  std::vector<Copy> copies;
  for (const auto& [name, bytes] : manifest.files) {
    std::vector<int> has;
    int writers = 0;
    for (size_t rank = 0; rank < found.size(); ++rank) {
      if (found[rank].is_null()) continue;
      ++writers;
      if (std::find(found[rank].begin(), found[rank].end(), name) != found[rank].end()) has.push_back(int(rank));
    }
    if (int(has.size()) == writers) continue;
    if (has.empty()) {
      const auto host = manifest.hosts.find(name);
      throw Error(ExitStatus::data,
                  (folder / name).string() + ": no host of this job has it; " +
                      (host == manifest.hosts.end() ? "it is missing or damaged"
                                                    : "host " + host->second +
                                                          " wrote it: start the job there too, or copy "
                                                          "the file from there"));
    }
    copies.push_back({name, bytes, has.front()});
  }
  return copies;
}

/// Sends a file to all ranks; those that `write` replace theirs.
void copy_file(const fs::path& path, const Copy& copy, bool write, Channels& channels) {
  std::optional<InputFile> in;
  std::optional<FileDraft> draft;
  std::optional<DurableFile> out;
  if (channels.rank() == copy.from) in.emplace(path);
  if (write) {
    draft.emplace(path);
    out.emplace(draft->path());
  }
  const at::Tensor buffer = at::empty({std::min(copy.bytes, bytes_at_once)}, at::kByte);
  auto* const bytes = static_cast<char*>(buffer.mutable_data_ptr());
  for (int64_t begin = 0; begin < copy.bytes; begin += buffer.numel()) {
    const auto count = size_t(std::min(buffer.numel(), copy.bytes - begin));
    if (in) in->read_at(begin, bytes, count);
    channels.control().broadcast(buffer.narrow(0, 0, int64_t(count)), copy.from, copying).wait();
    if (out) out->write({bytes, count});
  }
  if (!write) return;
  out->finish();
  draft->replace();
}

}  // namespace

void complete_on_every_host(Channels& channels, const FileWriters& writers, const fs::path& folder) {
  const fs::path manifest_file = folder / manifest_file_name;
  if (writers.is_shared_folder() && (!is_there(manifest_file) || read_manifest(folder).hosts.empty())) return;
  Peers& peers = channels.peers();
  const int rank = channels.rank();
  const MemoryScope scope(MemoryCategory::checkpoint);
  std::string text;
  const auto read = [&] {
    if (rank != 0 || !is_there(manifest_file)) return;
    read_manifest(folder);  // refuses an invalid one
    text = read_small_file(manifest_file, int64_t(fs::file_size(manifest_file)));
  };
  peers.rethrow_on_all_ranks(copying, failure_of(read));
  text = peers.broadcast(copying, text);
  if (text.empty()) return;
  const Manifest manifest = parse_manifest(text, manifest_file.string());
  const bool is_writer = writers.writer_for(rank) == rank;
  Json mine;
  if (is_writer) mine = intact_files(folder, manifest);
  std::vector<Json> found;
  for (const std::string& files : peers.gather(copying, mine.dump())) found.push_back(Json::parse(files));
  std::vector<Copy> copies;
  peers.rethrow_on_all_ranks(copying, failure_of([&] {
                               if (rank == 0) copies = planned_copies(folder, manifest, found);
                             }));
  copies = Json::parse(peers.broadcast(copying, Json(copies).dump())).get<std::vector<Copy>>();
  if (is_writer) make_folder_durably(folder);
  for (const Copy& copy : copies) {
    const bool lacks = is_writer && std::find(mine.begin(), mine.end(), copy.name) == mine.end();
    copy_file(folder / copy.name, copy, lacks, channels);
  }
  if (is_writer && !is_there(manifest_file)) write_new_file(manifest_file, text);
  peers.gather(copying, "");  // no rank reads before its writer has finished
  peers.broadcast(copying, "");
}

}  // namespace wmtp
