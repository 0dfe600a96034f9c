#include "order.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include "memory.hpp"
#include "settings.hpp"

namespace null_cuda {
namespace {

constexpr size_t most_texts = 20;

using Clock = std::map<Stream, uint64_t>;

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, time] : other) clock[stream] = std::max(clock[stream], time);
}

struct Access {
  Stream stream = nullptr;
  uint64_t time = 0;  ///< the stream's clock; 0: none
  const char* what = "";
};

/// Bytes with the same history.
struct Part {
  uintptr_t end = 0;
  Access write;
  std::vector<Access> reads;  ///< since the write, one per stream
};

class Order {
 public:
  std::mutex mutex;
  std::vector<std::string> texts;
  long found = 0;

  void add(const Access& access, uintptr_t begin, uintptr_t end, bool writes) {
    split(begin);
    split(end);
    auto part = parts_.lower_bound(begin);
    while (begin < end) {
      if (part == parts_.end() || part->first > begin) {  // bytes without a history
        const uintptr_t until = part == parts_.end() ? end : std::min(end, part->first);
        part = parts_.emplace(begin, Part{until, {}, {}}).first;
      }
      check(part->second, access, writes);
      begin = part->second.end;
      ++part;
    }
  }

  void forget(uintptr_t begin, uintptr_t end) {
    split(begin);
    split(end);
    parts_.erase(parts_.lower_bound(begin), parts_.lower_bound(end));
  }

  /// The stream's clock, ordered after everything that the host has waited for.
  Clock& now(Stream stream) {
    Clock& clock = streams_[stream];
    join(clock, host_);
    return clock;
  }
  uint64_t next(Stream stream) { return ++now(stream)[stream]; }

  void record(Event event, Stream stream) {
    next(stream);
    events_[event] = streams_[stream];
  }
  void wait(Stream stream, Event event) { join(streams_[stream], events_[event]); }
  void host_waits(const Clock& clock) { join(host_, clock); }
  const Clock& of_event(Event event) { return events_[event]; }
  void host_waits_for_all() {
    for (const auto& [stream, clock] : streams_) join(host_, clock);
  }

 private:
  void split(uintptr_t at) {
    auto part = parts_.upper_bound(at);
    if (part == parts_.begin()) return;
    --part;
    if (part->first == at || part->second.end <= at) return;
    Part right = part->second;
    part->second.end = at;
    parts_.emplace(at, std::move(right));
  }

  void check(Part& part, const Access& access, bool writes) {
    compare(part.write, access, writes ? "writes after a write" : "reads after a write");
    if (writes) {
      for (const Access& read : part.reads) compare(read, access, "writes after a read");
      part.reads.clear();
      part.write = access;
      return;
    }
    const auto same = [&](const Access& read) { return read.stream == access.stream; };
    const auto known = std::find_if(part.reads.begin(), part.reads.end(), same);
    if (known == part.reads.end())
      part.reads.push_back(access);
    else
      *known = access;
  }

  void compare(const Access& before, const Access& access, const char* how) {
    if (before.time == 0 || streams_[access.stream][before.stream] >= before.time) return;
    if (++found > long(most_texts)) return;
    char text[400];
    std::snprintf(text, sizeof text, "%s on stream %p %s by %s on stream %p", access.what, access.stream, how,
                  before.what, before.stream);
    texts.emplace_back(text);
  }

  std::map<uintptr_t, Part> parts_;  ///< by first byte
  std::map<Stream, Clock> streams_;
  std::map<Event, Clock> events_;
  Clock host_;
};

Order& order() {
  static Order* const all = new Order;
  return *all;
}

}  // namespace

void access(Stream stream, const void* begin, size_t bytes, bool writes, const char* what) {
  if (bytes == 0 || !on_device(begin)) return;
  const std::lock_guard lock(order().mutex);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  order().add({stream, order().next(stream), what}, first, first + bytes, writes);
}

void record(Event event, Stream stream) {
  const std::lock_guard lock(order().mutex);
  order().record(event, stream);
}

void wait(Stream stream, Event event) {
  if (settings().drops_waits) return;
  const std::lock_guard lock(order().mutex);
  order().wait(stream, event);
}

void host_waits_for_stream(Stream stream) {
  const std::lock_guard lock(order().mutex);
  order().host_waits(order().now(stream));
}

void host_waits_for_event(Event event) {
  const std::lock_guard lock(order().mutex);
  order().host_waits(order().of_event(event));
}

void host_waits_for_all() {
  const std::lock_guard lock(order().mutex);
  order().host_waits_for_all();
}

void forget(const void* begin, size_t bytes) {
  const std::lock_guard lock(order().mutex);
  order().forget(reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin) + bytes);
}

std::vector<std::string> races() {
  const std::lock_guard lock(order().mutex);
  return order().texts;
}

long num_races() {
  const std::lock_guard lock(order().mutex);
  return order().found;
}

}  // namespace null_cuda
