#include "comm/torch/peers.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

#include "base/json.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/refusal.hpp"
#include "comm/rendezvous.hpp"
#include "comm/torch/job_store.hpp"
#include "comm/torch/store_text.hpp"

namespace wmtp {
namespace {
using std::chrono::milliseconds;
// Plus the launcher's patience, less than 5 s: the time in which all ranks of a hanging job end after the timeout.
constexpr milliseconds time_to_report{2000};
constexpr milliseconds time_after_a_loss{500};
constexpr milliseconds poll_interval{50};
constexpr milliseconds notice_delay{5000};
constexpr size_t max_shown = 16;  // characters of an input's content, which is a hash
constexpr const char* missing_ranks = "missing: ";
// Where NCCL reports another error, ranks differ in how far they are, and none of them is the cause.
constexpr const char* nccl_timeout = "before timing out";

/// The stores of the communicators have prefixes of their own, which may be called "gather", too.
std::string exchange_key(const char* kind, int64_t number) {
  return std::string("peers/") + kind + "/" + std::to_string(number);
}
std::string fault_key(int rank) { return "fault/" + std::to_string(rank); }

std::string progress_key(int rank) { return "progress/" + std::to_string(rank); }

std::string rank_names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

/// With the names of their hosts if the job has several: "ranks 2, 3 on b and rank 4 on c".
std::string rank_names(const std::vector<int>& ranks, const std::vector<RankLocation>& places) {
  if (std::all_of(places.begin(), places.end(), [&](const RankLocation& one) { return one.host == places[0].host; }))
    return rank_names(ranks);
  std::string text;
  for (auto begin = ranks.begin(); begin != ranks.end();) {
    const RankLocation& place = places[size_t(*begin)];
    const auto end =
        std::find_if(begin, ranks.end(), [&](int rank) { return places[size_t(rank)].host != place.host; });
    text += (text.empty() ? "" : " and ") + rank_names({begin, end}) + " on " + place.host_name();
    begin = end;
  }
  return text;
}

/// The first difference between two lists of names and values.
std::string difference(const std::string& mine, const std::string& on_rank0) {
  std::istringstream here(mine), there(on_rank0);
  std::string line, other;
  while (std::getline(here, line) && std::getline(there, other) && line == other) {
  }
  const size_t name = line.find('\t');
  return line.substr(0, name) + " is '" + line.substr(name + 1) + "' here and '" + other.substr(other.find('\t') + 1) +
         "' on rank 0; start all ranks with the same settings";
}

/// The error that names what ranks lack or have differently than rank 0; the ranks of a host share a line.
std::optional<Error> input_refusal(const std::vector<std::string>& reports, const std::vector<RankLocation>& places) {
  std::map<std::string, Json> on_rank0;
  for (const Json& input : Json::parse(reports[0])) on_rank0[input["name"]] = input;
  std::map<std::string, std::vector<int>> ranks;  // by line
  std::vector<std::string> lines;
  ExitStatus status = ExitStatus::usage;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    for (const Json& input : Json::parse(reports[rank])) {
      const std::string name = input["name"], lack = input["lack"], content = input["content"];
      const std::string wanted = on_rank0.contains(name) ? on_rank0[name]["content"].get<std::string>() : "";
      if (lack.empty() && (content == wanted || wanted.empty())) continue;
      if (lines.empty()) status = ExitStatus(input["status"].get<int>());
      const std::string what = lack.empty() ? "found " + content.substr(0, max_shown) + ", wanted " +
                                                  wanted.substr(0, max_shown) + " as on rank 0"
                                            : lack;
      const std::string line = places[rank].host_name() + ": " + name + ": " + what;
      if (ranks[line].empty()) lines.push_back(line);
      ranks[line].push_back(int(rank));
    }
  }
  if (lines.empty()) return {};
  std::string text = "some hosts lack inputs of the experiment, or have versions that differ from those of rank 0";
  for (const std::string& line : lines) text += "\n  " + rank_names(ranks[line]) + " on " + line;
  return Error(status, text + "\nstart all ranks from the same files");
}

}  // namespace

Peers::Peers(const RankEnvironment& environment, milliseconds timeout)
    : rank_(environment.rank), size_(environment.world_size), timeout_(timeout) {
  if (size_ == 1) {
    locations_ = {RankLocation{"", placement_.address}};
    placement_ = compute_placement(environment, locations_);
    return;
  }
  const auto end = Clock::now() + timeout;
  const std::string own_address = open_store(environment, timeout);
  locations_ = exchange_all_locations(this_rank_location(environment, own_address), end);
  heartbeat_ = std::make_unique<Heartbeat>(store_, rank_, timeout_);
  try {
    placement_ = compute_placement(environment, locations_);
    check_route(environment, locations_);
  } catch (const Error& error) {  // the other ranks wait for this one
    post_fault(error);
    throw;
  }
}

Peers::Peers(int rank, int size) : rank_(rank), size_(size), timeout_(0), locations_(size_t(size)) {}

/// Returns the address from which this rank reached rank 0.
std::string Peers::open_store(const RankEnvironment& environment, milliseconds timeout) {
  const std::string here = "rank " + std::to_string(rank_);
  try {
    JobStore job = open_job_store(environment, timeout, [&](const std::string& cause) {
      log_warning(here + " is waiting for the rendezvous at " + rendezvous_text(environment) + " (" + cause + ")");
    });
    server_ = std::move(job.server);
    store_ = std::move(job.store);
    return job.own_address;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::peer) throw;
    throw Error(error.status(), here + ": no rendezvous of " + std::to_string(size_) + " ranks: " + error.what());
  } catch (const c10::Error& error) {
    if (!environment.agent_store) throw;
    throw Error(ExitStatus::peer, here + ": no rendezvous of " + std::to_string(size_) +
                                      " ranks: the store of torchrun's agent at " + rendezvous_text(environment) +
                                      " is gone: " + first_line(error.what()));
  }
}

/// Whether the key is set before `end`. Polls frequently at first.
bool Peers::wait_for_key(const std::string& key, Clock::time_point end) const {
  for (milliseconds pause{1}; !store_->check({key}); pause = std::min(2 * pause, poll_interval)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::vector<int> Peers::missing_until(Clock::time_point end) const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank)
    if (!wait_for_key(location_key(rank), end)) missing.push_back(rank);
  return missing;
}

/// The places of all ranks, or why the job cannot start. [rank 0]
std::string Peers::gather_locations(Clock::time_point end) const {
  std::vector<int> missing = missing_until(std::min(end, Clock::now() + notice_delay));
  if (!missing.empty() && Clock::now() < end) {
    log_warning("rank 0 is waiting for " + rank_names(missing));
    missing = missing_until(end);
  }
  std::string texts;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({location_key(rank)})) continue;
    const std::string place = bytes_to_text(store_->get(location_key(rank)));
    if (parse_refusal(place)) return place;
    (texts += place) += '\n';
  }
  return missing.empty() ? texts : missing_ranks + rank_names(missing);
}

/// The places of all ranks, gathered and broadcast by rank 0, or why the job cannot start.
std::string Peers::exchange_locations(const RankLocation& mine, Clock::time_point end) {
  store_->set(location_key(rank_), text_to_bytes(mine.to_text()));
  if (rank_ == 0) {
    const std::string texts = gather_locations(end);
    store_->set(locations_key, text_to_bytes(texts));
    return texts;
  }
  if (wait_for_key(locations_key, end + time_to_report)) return bytes_to_text(store_->get(locations_key));
  const std::vector<int> missing = missing_until(Clock::now());  // rank 0 may wait longer, if it was started later
  return missing_ranks + rank_names(missing.empty() ? std::vector{0} : missing);
}

/// Every rank's place, by rank.
std::vector<RankLocation> Peers::exchange_all_locations(const RankLocation& mine, Clock::time_point end) {
  std::string texts;
  try {
    texts = exchange_locations(mine, end);
  } catch (const std::exception& error) {
    throw explain("connecting to the other ranks", error.what());
  }
  const bool is_incomplete = texts.starts_with(missing_ranks);
  const std::optional<Error> refusal = parse_refusal(texts);
  if (rank_ == 0 && (is_incomplete || refusal)) std::this_thread::sleep_for(time_after_a_loss);
  if (refusal) throw *refusal;
  if (is_incomplete)
    throw Error(ExitStatus::peer, "rank " + std::to_string(rank_) + ": " + texts.substr(std::strlen(missing_ranks)) +
                                      " did not connect to the rendezvous within parallel.timeout_seconds");
  std::vector<RankLocation> places;
  std::istringstream lines(texts);
  for (std::string line; std::getline(lines, line);) places.push_back(RankLocation::from_text(line));
  return places;
}

Peers::~Peers() = default;

bool Peers::post_fault(const Error& error) noexcept {
  if (!store_) return true;
  bool first = !adopted_;
  try {
    store_->setTimeout(time_to_report);
    // Before posting the fault itself: rank 0 closes the store once every rank has posted its fault.
    first = store_->add("reported/" + std::string(error.what()), 1) == 1 && !adopted_;
    store_->set(fault_key(rank_), text_to_bytes(refusal_text(error)));
    if (hang_up_) hang_up_();
    if (rank_ != 0) return first;
    const milliseconds patience = error.status() == ExitStatus::peer ? time_after_a_loss : time_to_report;
    for (milliseconds waited{0}; waited < patience; waited += poll_interval) {
      bool all = true;
      for (int rank = 1; rank < size_; ++rank) all = all && has_left(rank);
      if (all) break;
      std::this_thread::sleep_for(poll_interval);
    }
  } catch (...) {  // the store is gone, so no rank can read the fault
  }
  return first;
}

Error Peers::explain(const std::string& what_broke, const std::string& detail) noexcept {
  const std::string collectives = record_.text();  // before hang_up_ ends those in flight
  const Error error = find_cause(what_broke, detail);
  if (error.status() != ExitStatus::peer || !record_.write(rank_, collectives)) return error;
  return Error(ExitStatus::peer, std::string(error.what()) +
                                     "; the last collectives of every rank that could write them: " +
                                     (record_.folder() / "flight-*.txt").string());
}

/// The ranks whose device has reached fewer collectives than those of others, and the first that it has not reached; ""
/// if all have reached the same ones or no rank uses a device.
std::string Peers::stopped_devices() const {
  std::vector<int> ranks;
  std::string first;
  int64_t least = 0, most = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({progress_key(rank)})) return "";
    const Json progress = Json::parse(bytes_to_text(store_->get(progress_key(rank))));
    const int64_t reached = progress["reached"];
    if (rank == 0) least = most = reached;
    if (reached < least) ranks.clear();
    least = std::min(least, reached);
    most = std::max(most, reached);
    if (reached > least) continue;
    ranks.push_back(rank);
    first = progress["next"];
  }
  if (least == most) return "";
  return (ranks.size() == 1 ? "; the device of " : "; the devices of ") + rank_names(ranks, locations_) +
         " stopped before " + first;
}

Error Peers::find_cause(const std::string& what_broke, const std::string& detail) noexcept {
  if (std::thread::id first; !explainer_.compare_exchange_strong(first, std::this_thread::get_id()))
    if (first != std::this_thread::get_id()) std::this_thread::sleep_for(2 * time_to_report);
  const std::string here = "rank " + std::to_string(rank_) + ": " + what_broke + " failed";
  const std::string why = detail.empty() ? here : here + " (" + first_line(detail) + ")";
  std::vector<int> silent;
  std::string before, stopped;
  try {
    store_->setTimeout(time_to_report);  // rank 0, which runs the server, may be the one that hangs
    if (store_->add("broken", 1) == 1)
      store_->set("broken/first", text_to_bytes(why));
    else if (store_->check({"broken/first"}))
      before = "; previously, " + bytes_to_text(store_->get("broken/first"));
    if (const auto progress = record_.device_progress())
      store_->set(progress_key(rank_),
                  text_to_bytes(Json{{"reached", progress->reached}, {"next", progress->next}}.dump()));
    store_->set(fault_key(rank_), text_to_bytes(refusal_text(Error(ExitStatus::peer, here))));
    if (hang_up_) hang_up_();
    for (milliseconds waited{0}; waited < time_to_report; waited += poll_interval) {
      silent.clear();
      for (int rank = 0; rank < size_; ++rank) {
        if (!store_->check({fault_key(rank)})) {
          silent.push_back(rank);
          continue;
        }
        const Error fault = parse_refusal(bytes_to_text(store_->get(fault_key(rank)))).value();
        if (fault.status() == ExitStatus::peer) continue;
        adopted_ = true;  // the rank that posted it prints it, even if the store is gone when this rank ends
        return fault;
      }
      if (silent.empty()) break;
      std::this_thread::sleep_for(poll_interval);
    }
    if (silent.empty() && detail.find(nccl_timeout) != detail.npos) stopped = stopped_devices();
  } catch (const std::exception&) {
    lost_ = lost_rank0_ = true;
    return Error(ExitStatus::peer,
                 here + ": " + rank_names({0}, locations_) + ", which serves the rendezvous, is gone");
  }
  lost_ = true;
  if (silent.empty()) return Error(ExitStatus::peer, why + stopped + before);
  return Error(ExitStatus::peer, here + ": " + rank_names(silent, locations_) + " did not answer");
}

bool Peers::has_left(int rank) const {
  return store_ && (store_->check({fault_key(rank)}) || store_->check({ended_key(rank)}));
}

bool Peers::wait_for_key(const std::string& key, int from, bool until_loss) const {
  HeartbeatMonitor silence(*store_, from);
  for (milliseconds pause{1}; !store_->check({key}); pause = std::min(2 * pause, poll_interval)) {
    // It may have set the key just before.
    if (has_left(from) || silence.now() > timeout_) return store_->check({key});
    if (until_loss && lost_) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::string Peers::get(const std::string& key, int from, const std::string& what) {
  try {
    if (!wait_for_key(key, from)) throw explain(what, "");
    return bytes_to_text(store_->get(key));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw explain(what, error.what());
  }
}

void Peers::set(const std::string& key, const std::string& text, const std::string& what) {
  try {
    store_->set(key, text_to_bytes(text));
    store_->check({key});  // waits until it is there: a rank that leaves right after must not take it along
  } catch (const std::exception& error) {
    throw explain(what, error.what());
  }
}

void Peers::wait_for_all() {
  if (!store_) return;
  constexpr const char* what = "ending";
  gather(what, "");
  broadcast(what, "");
  if (rank_ != 0) return;
  std::vector<int> staying;
  const auto end = Clock::now() + timeout_;
  for (int rank = 1; rank < size_; ++rank)
    if (!wait_for_key(ended_key(rank), end)) staying.push_back(rank);
  if (!staying.empty())
    throw Error(ExitStatus::peer,
                std::string("rank 0: ") + what + " failed: " + rank_names(staying, locations_) + " did not answer");
}

std::string Peers::broadcast(const std::string& what, const std::string& rank0_text) {
  if (!store_) return rank0_text;
  const std::string key = exchange_key("broadcast", exchanges_++);
  if (rank_ != 0) return get(key, 0, what);
  set(key, rank0_text, what);
  return rank0_text;
}

std::vector<std::string> Peers::gather(const std::string& what, const std::string& mine) {
  if (!store_) return {mine};
  const std::string key = exchange_key("gather", exchanges_++) + "/";
  if (rank_ != 0) {
    set(key + std::to_string(rank_), mine, what);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < size_; ++rank) {
    const std::string of_rank = key + std::to_string(rank);
    texts.push_back(get(of_rank, rank, what));
    store_->deleteKey(of_rank);
  }
  return texts;
}

void Peers::rethrow_on_all_ranks(const std::string& what, const std::optional<Error>& mine) {
  std::string first;
  for (const std::string& failure : gather(what, failure_text(rank_, mine)))
    if (first.empty()) first = failure;
  if (const auto failure = parse_refusal(broadcast(what, first))) throw *failure;
}

void Peers::check_settings(const Settings& mine) {
  constexpr const char* what = "comparing the ranks' settings";
  std::string text;
  for (const auto& [name, value] : mine) text += name + "\t" + value + "\n";
  const std::string on_rank0 = broadcast(what, text);
  std::optional<Error> failure;
  if (text != on_rank0) failure.emplace(ExitStatus::usage, difference(text, on_rank0));
  rethrow_on_all_ranks(what, failure);
}

void Peers::check_inputs(const std::vector<Input>& mine) {
  constexpr const char* what = "comparing the ranks' inputs";
  Json report = Json::array();
  for (const Input& input : mine) {
    if (!store_ && input.lack) throw *input.lack;
    const auto& lack = input.lack;
    report.push_back({{"name", input.name}, {"content", input.content}, {"lack", lack ? lack->what() : ""}});
    report.back()["status"] = int(lack ? lack->status() : ExitStatus::usage);
  }
  const std::vector<std::string> reports = gather(what, report.dump());
  rethrow_on_all_ranks(what, rank_ == 0 ? input_refusal(reports, locations_) : std::nullopt);
}

}  // namespace wmtp
