// The order of work on the null device. Work is executed as soon as it is launched, in the host's order, so missing
// synchronization does not change the numbers. Vector clocks detect it instead (Lamport 1978, Mattern 1989): each
// stream counts its work, and knows how much of every other stream's work it is ordered after. Two accesses to the same
// bytes, at least one of them a write, are a race if no event or wait of the host orders them. [any thread]
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace null_cuda {

using Stream = const void*;
using Event = const void*;

/// Work `what` of a stream that reads or writes device memory; other memory is ignored. `what` must stay valid.
void access(Stream stream, const void* begin, size_t bytes, bool writes, const char* what);

void record(Event event, Stream stream);
void wait(Stream stream, Event event);
void host_waits_for_stream(Stream stream);
void host_waits_for_event(Event event);
void host_waits_for_all();

/// Freed memory has no history. [its last use is ordered before]
void forget(const void* begin, size_t bytes);

/// Descriptions of the first 20 races, and the number of races.
std::vector<std::string> races();
long num_races();

}  // namespace null_cuda
