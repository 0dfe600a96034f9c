#include "comm/refusal.hpp"

#include <thread>

#include "comm/rendezvous.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* refuses = "refuses ";
constexpr milliseconds patience{5000}, poll_interval{20}, linger_time{500};

/// Waits until the others have connected, then until they have read the refusal.
void wait_for_others(StoreClient& store, int world_size) {
  const auto end = Clock::now() + patience;
  for (int rank = 1; rank < world_size; ++rank)
    while (!store.check({location_key(rank)})) {
      if (Clock::now() >= end) return;
      std::this_thread::sleep_for(poll_interval);
    }
  std::this_thread::sleep_for(linger_time);
}

}  // namespace

std::string location_key(int rank) { return "place/" + std::to_string(rank); }

Error named_by_rank(int rank, const Error& error) {
  return Error(error.status(), "rank " + std::to_string(rank) + ": " + error.what());
}

std::string refusal_text(const Error& error) {
  return refuses + std::to_string(int(error.status())) + " " + error.what();
}

std::string failure_text(int rank, const std::optional<Error>& failure) {
  if (!failure) return "";
  return refusal_text(rank == 0 ? *failure : named_by_rank(rank, *failure));
}

std::optional<Error> parse_refusal(const std::string& text) {
  if (!text.starts_with(refuses)) return {};
  const std::string rest = text.substr(std::string(refuses).size());
  return Error(ExitStatus(std::stoi(rest)), rest.substr(rest.find(' ') + 1));
}

void publish_refusal(const RankEnvironment& environment, const Error& error) noexcept {
  if (environment.world_size == 1 || environment.own_launcher || environment.agent_store) return;
  try {
    const bool is_rank0 = environment.rank == 0;
    std::unique_ptr<StoreServer> server;
    if (is_rank0) server = serve_rendezvous(environment, rendezvous_address(environment));
    const auto store = join_rendezvous(environment, patience, [](const std::string&) {});
    store->set(is_rank0 ? locations_key : location_key(environment.rank),
               refusal_text(named_by_rank(environment.rank, error)));
    if (is_rank0) wait_for_others(*store, environment.world_size);
  } catch (const std::exception&) {  // there is no rank to inform
  }
}

}  // namespace wmtp
