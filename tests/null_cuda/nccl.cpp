// NCCL on the null device: the collectives that the program uses, through a file that the ranks of one host share. A
// collective completes before the call returns. If a rank's device has stopped, or a rank does not join within
// `patience`, the other devices hang until the communicator is aborted, as a kernel of NCCL would.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "activity.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "settings.hpp"

namespace null_cuda {
namespace {

constexpr size_t slot_bytes = size_t(8) << 20;  // of each rank
constexpr size_t header_bytes = 4096;
constexpr std::chrono::seconds patience{60};

struct Shared {
  std::atomic<long> arrivals;
  std::atomic<bool> stopped;  ///< set by a rank whose device hangs
};

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

std::atomic<long> begun{0};  ///< collectives of this process

bool is_rank_to_hang() {
  const char* rank = std::getenv("RANK");
  return settings().hangs_on_rank >= 0 && rank && std::atol(rank) == settings().hangs_on_rank;
}

class Communicator {
 public:
  Communicator(const ncclUniqueId& id, int rank, int size) : rank_(rank), size_(size) {
    static int communicators = 0;
    const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    if (++communicators > 1 && (!order || std::atoi(order) != 1))
      fail("several communicators, and no order of launches");
    std::string name = "/dev/shm/null_nccl_";
    for (int i = 0; i < 16; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", uint8_t(id.internal[i]));
      name += digits;
    }
    const size_t bytes = header_bytes + slot_bytes * size_t(size);
    const int file = open(name.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, off_t(bytes)) != 0) fail("cannot create " + name);
    auto* at = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    shared_ = reinterpret_cast<Shared*>(at);
    slots_ = at + header_bytes;
    if (!meet()) fail("not all ranks have joined");
    if (rank == 0) unlink(name.c_str());
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  void abort() { aborted_ = true; }

  /// Every rank provides `bytes` at `from` for each of `parts`. Calls take(r, p, offset, data, bytes) for part p of
  /// rank r.
  using Take = std::function<void(int rank, int part, size_t offset, const char* data, size_t bytes)>;
  void exchange(const char* from, size_t bytes, int parts, const Take& take) {
    const size_t piece = slot_bytes / size_t(parts);
    for (size_t offset = 0; offset < bytes; offset += piece) {
      const size_t now = std::min(piece, bytes - offset);
      for (int part = 0; part < parts; ++part)
        std::memcpy(slot(rank_) + piece * size_t(part), from + bytes * size_t(part) + offset, now);
      if (!meet()) return;
      for (int rank = 0; rank < size_; ++rank)
        for (int part = 0; part < parts; ++part) take(rank, part, offset, slot(rank) + piece * size_t(part), now);
      if (!meet()) return;
    }
    if (begun == settings().hangs_at && is_rank_to_hang()) start_hang();
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    std::fprintf(stderr, "null_cuda: NCCL: %s\n", what.c_str());
    _exit(1);
  }

  char* slot(int rank) const { return slots_ + slot_bytes * size_t(rank); }

  /// Waits for all ranks; false if one does not join, or after an abort.
  bool meet() {
    if (hangs()) shared_->stopped = true;
    if (hangs() || aborted_) return false;
    ++shared_->arrivals;
    met_ += size_;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (shared_->arrivals < met_) {
      if (aborted_) return false;
      if (shared_->stopped || std::chrono::steady_clock::now() > end) {
        start_hang();
        return false;
      }
      usleep(20);
    }
    return true;
  }

  const int rank_, size_;
  Shared* shared_ = nullptr;
  char* slots_ = nullptr;
  long met_ = 0;
  std::atomic<bool> aborted_{false};
};

Communicator& of(ncclComm_t communicator) { return *reinterpret_cast<Communicator*>(communicator); }

/// Begins a collective that reads `bytes` at `from` and writes `result` bytes at `to`.
void begin(const char* name, const void* from, size_t bytes, void* to, size_t result, cudaStream_t stream) {
  ++begun;
  count_launch(name);
  access(stream, from, bytes, false, name);
  access(stream, to, result, true, name);
}

}  // namespace
}  // namespace null_cuda

using namespace null_cuda;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return getrandom(id->internal, sizeof id->internal, 0) == ssize_t(sizeof id->internal) ? ncclSuccess
                                                                                         : ncclSystemError;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  *communicator = reinterpret_cast<ncclComm_t>(new Communicator(id, rank, size));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(communicator, size, id, rank, nullptr);
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (!communicator) return ncclInvalidArgument;
  of(communicator).abort();
  end_hang();
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* result) {
  *result = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t communicator, int* size) {
  *size = of(communicator).size();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = of(communicator).rank();
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "an error of the null device"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  Communicator& ranks = of(communicator);
  const size_t bytes = count * size_of(type);
  begin("ncclAllGather", from, bytes, to, bytes * size_t(ranks.size()), stream);
  ranks.exchange(shadow(from), bytes, 1, [&](int rank, int, size_t offset, const char* data, size_t now) {
    std::memcpy(shadow(to) + bytes * size_t(rank) + offset, data, now);
  });
  return ncclSuccess;
}
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                          cudaStream_t stream) {
  Communicator& ranks = of(communicator);
  const size_t bytes = count * size_of(type), all = bytes * size_t(ranks.size());
  begin("ncclAlltoAll", from, all, to, all, stream);
  ranks.exchange(shadow(from), bytes, ranks.size(),
                 [&](int rank, int part, size_t offset, const char* data, size_t now) {
                   if (part == ranks.rank()) std::memcpy(shadow(to) + bytes * size_t(rank) + offset, data, now);
                 });
  return ncclSuccess;
}

}  // extern "C"
