#include "dist/peers.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "dist/store_text.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
// Together under 5 s with the launcher's patience: that long after the timeout no rank of a job that hangs may be left.
constexpr milliseconds time_to_report{2000};
constexpr milliseconds time_to_leave_the_lost{500};
constexpr milliseconds between_looks{50};

std::string fault_key(int rank) { return "fault/" + std::to_string(rank); }

bool is_listening(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected = connect(fd, address.ai_addr, address.ai_addrlen) == 0;
  close(fd);
  return connected;
}

/// Returns as soon as rank 0 listens. The store's own client waits half a second and more after a refused connection, which
/// is what the ranks that start a moment before rank 0 would pay every time.
void await_listener(const std::string& host, int port, seconds timeout) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;  // the store says why
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!is_listening(*found) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds{5});
  freeaddrinfo(found);
}

std::string first_line(const char* text) {
  const std::string all(text);
  return all.substr(0, all.find('\n'));
}

std::string names_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

Peers::Peers(const RankEnvironment& environment, seconds timeout)
    : rank_(environment.rank), size_(environment.world_size) {
  if (size_ == 1) return;
  c10d::TCPStoreOptions options;
  options.port = uint16_t(environment.master_port);
  options.isServer = rank_ == 0;
  options.numWorkers = size_;
  options.timeout = timeout;
  const std::string place = environment.master_addr + ":" + std::to_string(environment.master_port);
  if (rank_ != 0) await_listener(environment.master_addr, environment.master_port, timeout);
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  } catch (const std::exception& error) {
    const std::string cause = first_line(error.what());
    if (cause.find("EADDRINUSE") != std::string::npos || cause.find("in use") != std::string::npos)
      throw Error(ExitStatus::usage, "rendezvous: port " + place + " is in use; set MASTER_PORT to a free one");
    throw Error(ExitStatus::peer, "rank " + std::to_string(rank_) + ": no rendezvous of " + std::to_string(size_) +
                                      " ranks at " + place + " within " + std::to_string(timeout.count()) + " s: " + cause);
  }
}

bool Peers::post_fault(const Error& error) noexcept {
  if (!store_) return true;
  bool first = !adopted_;
  try {
    // Before the fault itself: rank 0 takes the store away once all have posted theirs.
    first = store_->add("told/" + std::string(error.what()), 1) == 1 && !adopted_;
    store_->set(fault_key(rank_), bytes_of(std::to_string(int(error.status())) + " " + error.what()));
    if (hang_up_) hang_up_();
    if (rank_ != 0) return first;
    const milliseconds patience = error.status() == ExitStatus::peer ? time_to_leave_the_lost : time_to_report;
    for (milliseconds waited{0}; waited < patience; waited += between_looks) {
      bool all = true;
      for (int rank = 1; rank < size_; ++rank) all = all && store_->check({fault_key(rank)});
      if (all) break;
      std::this_thread::sleep_for(between_looks);
    }
  } catch (...) {  // the store is gone: nobody is left to be told
  }
  return first;
}

Error Peers::explain(const std::string& what_broke, const std::string& detail) noexcept {
  const std::string here = "rank " + std::to_string(rank_) + ": " + what_broke + " failed";
  std::vector<int> silent;
  try {
    store_->set(fault_key(rank_), bytes_of(std::to_string(int(ExitStatus::peer)) + " " + here));
    if (hang_up_) hang_up_();
    for (milliseconds waited{0}; waited < time_to_report; waited += between_looks) {
      silent.clear();
      for (int rank = 0; rank < size_; ++rank) {
        if (!store_->check({fault_key(rank)})) {
          silent.push_back(rank);
          continue;
        }
        const std::string fault = text_of(store_->get(fault_key(rank)));
        const int status = std::stoi(fault);
        if (status == int(ExitStatus::peer)) continue;
        adopted_ = true;  // whoever posted it tells it, even when the store is gone by the time we end
        return Error(ExitStatus(status), fault.substr(fault.find(' ') + 1));
      }
      if (silent.empty()) break;
      std::this_thread::sleep_for(between_looks);
    }
  } catch (const std::exception&) {
    lost_ = true;
    return Error(ExitStatus::peer, here + ": rank 0, which holds the rendezvous, is gone");
  }
  lost_ = true;
  if (silent.empty()) return Error(ExitStatus::peer, here + " (" + first_line(detail.c_str()) + ")");
  return Error(ExitStatus::peer, here + ": " + names_of(silent) + " did not answer");
}

bool Peers::has_fault_of(int rank) const { return store_ && store_->check({fault_key(rank)}); }

std::string Peers::wait_for(const std::string& key, int from, const std::string& what) {
  try {
    while (!store_->check({key})) {
      if (store_->check({fault_key(from)})) throw explain(what, "");
      std::this_thread::sleep_for(between_looks);
    }
    return text_of(store_->get(key));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw explain(what, error.what());
  }
}

std::string Peers::publish(const std::string& what, const std::string& text_of_rank0) {
  if (!store_) return text_of_rank0;
  const std::string key = "publish/" + std::to_string(exchanges_++);
  if (rank_ != 0) return wait_for(key, 0, what);
  store_->set(key, bytes_of(text_of_rank0));
  return text_of_rank0;
}

std::vector<std::string> Peers::collect(const std::string& what, const std::string& mine) {
  if (!store_) return {mine};
  const std::string key = "collect/" + std::to_string(exchanges_++) + "/";
  if (rank_ != 0) {
    store_->set(key + std::to_string(rank_), bytes_of(mine));
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < size_; ++rank) texts.push_back(wait_for(key + std::to_string(rank), rank, what));
  return texts;
}

void Peers::agree(const std::string& what, const std::string& mine, ExitStatus status) {
  const std::string of_rank0 = publish("agree/" + what, mine);
  if (mine == of_rank0) return;
  throw Error(status, "rank " + std::to_string(rank_) + ": " + what + " differs between ranks: rank 0 has " + of_rank0 +
                          ", rank " + std::to_string(rank_) + " has " + mine + "; start all ranks from the same files");
}

}  // namespace wmtp
