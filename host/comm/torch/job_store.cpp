#include "comm/torch/job_store.hpp"

#include <algorithm>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/text.hpp"
#include "comm/rendezvous.hpp"
#include "comm/torch/store_text.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using OnWait = std::function<void(const std::string& cause)>;

constexpr milliseconds first_pause{1}, max_pause{20};
constexpr const char* agents_key = "wmtp/rendezvous";

/// wait() polls, so that no request blocks those of other threads.
class ClientStore final : public c10d::Store {
 public:
  ClientStore(std::unique_ptr<StoreClient> client, milliseconds timeout) : Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(this);  // usable from any thread
  }
  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    client_->set(key, bytes_to_text(value));
  }
  using Store::compareSet;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& wanted) override {
    return text_to_bytes(client_->compare_exchange(key, bytes_to_text(expected), bytes_to_text(wanted)));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    wait({key});
    return text_to_bytes(client_->get(key).value_or(""));
  }
  int64_t add(const std::string& key, int64_t value) override { return client_->add(key, value); }
  bool deleteKey(const std::string& key) override { return client_->remove(key); }
  bool check(const std::vector<std::string>& keys) override { return client_->check(keys); }
  int64_t getNumKeys() override { return client_->count(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, client_->timeout()); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const auto end = Clock::now() + timeout;
    for (milliseconds pause = first_pause; !check(keys); pause = std::min(2 * pause, max_pause)) {
      if (Clock::now() >= end)
        C10_THROW_ERROR(DistStoreError,
                        "no rank set " + keys.at(0) + " within " + std::to_string(timeout.count()) + " ms");
      std::this_thread::sleep_for(pause);
    }
  }
  void setTimeout(const milliseconds& timeout) override { client_->set_timeout(timeout); }

 private:
  std::unique_ptr<StoreClient> client_;
};

/// The store of torchrun's agent, and this rank's address on the connection to it.
struct AgentStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;
};

/// LibTorch's client waits at least half a second after a refused connection, so it is created when the port is open.
AgentStore agent_store(const RankEnvironment& environment, milliseconds timeout, const OnWait& on_wait) {
  const std::string place = rendezvous_text(environment);
  const auto attempt = [&](milliseconds limit, std::string& cause) {
    return connected_to(environment.master_addr, environment.master_port, limit, cause);
  };
  AgentStore agent{{}, connect_with_retry(place, attempt, timeout, on_wait).own_address()};
  c10d::TCPStoreOptions options;
  options.port = uint16_t(environment.master_port);
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    agent.store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  } catch (const std::exception& error) {
    throw Error(ExitStatus::peer, "the store of torchrun's agent at " + place + ": " + first_line(error.what()));
  }
  return agent;
}

/// Rank 0 may reach the agent over the loopback; then the other ranks use the agent's host name.
std::unique_ptr<StoreServer> serve_through_agent(const RankEnvironment& environment, const AgentStore& agent) {
  const std::string host = is_loopback(agent.own_address) ? environment.master_addr : agent.own_address;
  const std::string token = environment.token_is_given ? environment.token : random_token();
  auto server = serve_rendezvous(environment, {host, 0, token});
  agent.store->set(agents_key,
                   host + " " + std::to_string(server->port()) + (environment.token_is_given ? "" : " " + token));
  return server;
}

std::optional<RendezvousAddress> address_from_agent(const RankEnvironment& environment, c10d::Store& agent) {
  if (!agent.check({agents_key})) return {};
  std::istringstream text(bytes_to_text(agent.get(agents_key)));
  RendezvousAddress place{"", 0, environment.token};
  text >> place.host >> place.port;
  if (!environment.token_is_given) text >> place.token;
  return reachable_address(environment, place);
}

}  // namespace

JobStore open_job_store(const RankEnvironment& environment, milliseconds timeout, const OnWait& on_wait) {
  JobStore job;
  std::unique_ptr<StoreClient> client;
  if (environment.agent_store) {
    const AgentStore agent = agent_store(environment, timeout, on_wait);
    if (environment.rank == 0) job.server = serve_through_agent(environment, agent);
    client = std::make_unique<StoreClient>(
        "rank 0's address from the store of torchrun's agent at " + rendezvous_text(environment),
        [&] { return address_from_agent(environment, *agent.store); }, timeout, on_wait);
  } else {
    if (environment.rank == 0) job.server = serve_rendezvous(environment, rendezvous_address(environment));
    client = join_rendezvous(environment, timeout, on_wait);
  }
  client->set_when_closed(ended_key(environment.rank));
  job.own_address = client->own_address();
  job.store = c10::make_intrusive<ClientStore>(std::move(client), timeout);
  return job;
}

}  // namespace wmtp
