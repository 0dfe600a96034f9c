#include "comm/placement.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/network.hpp"
#include "comm/rendezvous.hpp"

namespace wmtp {
namespace {

bool is_usable(const Interface& one) { return one.is_up && !one.address.empty(); }

/// A setting that names interfaces, in the notation of NCCL_SOCKET_IFNAME: names or beginnings of names, divided by
/// commas; after `=` whole names only; after `^` those to leave out.
struct InterfaceChoice {
  const char* variable;
  std::string text;
  bool excludes = false, is_exact = false;
  std::vector<std::string> names;

  InterfaceChoice(const char* of, std::string value) : variable(of), text(std::move(value)) {
    std::string_view rest = without_outer_space(text);
    const auto begins_with = [&](char mark) {
      const bool found = rest.starts_with(mark);
      if (found) rest.remove_prefix(1);
      return found;
    };
    excludes = begins_with('^');
    is_exact = begins_with('=');
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      if (const auto name = without_outer_space(rest.substr(0, comma)); !name.empty()) names.emplace_back(name);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }

  bool matches(const std::string& name, const std::string& wanted) const {
    return is_exact ? name == wanted : name.starts_with(wanted);
  }

  /// The first usable interface that is named, a whole name before a beginning; of those not left out the one with the
  /// address `routed`, else the first outside of the loopback. Null if there is none.
  const Interface* among(const std::vector<Interface>& all, const std::string& routed) const {
    const auto first = [&](const auto& fits) -> const Interface* {
      const auto found =
          std::find_if(all.begin(), all.end(), [&](const auto& one) { return is_usable(one) && fits(one); });
      return found == all.end() ? nullptr : &*found;
    };
    const Interface* found = nullptr;
    if (excludes) {
      const auto is_left = [&](const Interface& one) {
        return std::none_of(names.begin(), names.end(), [&](const auto& name) { return matches(one.name, name); });
      };
      found = first([&](const Interface& one) { return is_left(one) && one.address == routed; });
      return found ? found : first([&](const Interface& one) { return is_left(one) && !is_loopback(one.address); });
    }
    for (const std::string& name : names) {
      found = first([&](const Interface& one) { return one.name == name; });
      if (!found) found = first([&](const Interface& one) { return matches(one.name, name); });
      if (found) break;
    }
    return found;
  }
};

/// Of variables in this order; nullopt where all ranks are on this host, whose loopback they use.
std::optional<InterfaceChoice> interface_choice(const RankEnvironment& environment) {
  if (environment.on_one_host() || environment.world_size == 1) return {};
  for (const char* variable : {"WMTP_INTERFACE", "GLOO_SOCKET_IFNAME"})
    if (std::string value = environment_value(variable); !value.empty()) return InterfaceChoice(variable, value);
  return {};
}

std::string interface_text(const Interface& one) {
  return one.name + (one.address.empty() ? ", which has no address" : " (" + one.address + ")") +
         (one.is_up ? "" : ", which is down");
}

std::string names_of_usable(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& one : all)
    if (is_usable(one)) text += (text.empty() ? "" : ", ") + interface_text(one);
  return text;
}

Error unreachable(int rank, const RankLocation& own, const RankLocation& other, const std::string& cause) {
  const auto at = [](const RankLocation& place) {
    return place.address + (place.interface.empty() ? "" : " (interface " + place.interface + ")");
  };
  return Error(ExitStatus::usage, "rank " + std::to_string(rank) + " cannot communicate from " + at(own) +
                                      " with the rank at " + at(other) + ": " + cause +
                                      "; set WMTP_INTERFACE (or GLOO_SOCKET_IFNAME) to an interface of the network "
                                      "between the hosts, or unset it to use the route to the rendezvous");
}

/// The first place that is not on the loopback, or null.
const RankLocation* routable(const std::vector<RankLocation>& places) {
  const auto found =
      std::find_if(places.begin(), places.end(), [](const RankLocation& p) { return !is_loopback(p.address); });
  return found == places.end() ? nullptr : &*found;
}

std::string address_among(const RankLocation& own, int rank, const std::vector<RankLocation>& places) {
  const RankLocation* other = is_loopback(own.address) ? routable(places) : nullptr;
  if (!other) return own.address;
  if (!own.interface.empty()) throw unreachable(rank, own, *other, "the first address is only valid on its own host");
  const std::string found = source_address_for(other->address);
  return found.empty() ? own.address : found;
}

}  // namespace

std::string RankLocation::to_text() const { return host + " " + address + " " + interface; }

RankLocation RankLocation::from_text(const std::string& text) {
  const size_t first = text.find(' '), second = text.find(' ', first + 1);
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

void check_interface(const RankEnvironment& environment) {
  const auto choice = interface_choice(environment);
  if (!choice) return;
  const std::vector<Interface> all = list_interfaces();
  const std::string own = source_address_for(environment.master_addr), rendezvous = rendezvous_text(environment);
  if (choice->among(all, own)) return;
  const auto unusable = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == choice->text; });
  throw Error(ExitStatus::usage,
              std::string(choice->variable) + ": found " +
                  (unusable == all.end() ? "no interface '" + choice->text + "'" : interface_text(*unusable)) +
                  ", wanted one of " + names_of_usable(all) +
                  ", several with commas, the beginning of a name, or ^ and those to leave out; unset it to use " +
                  (own.empty() ? "the route to the rendezvous at " + rendezvous + ", which this host does not have now"
                               : own + ", from which this host reaches the rendezvous at " + rendezvous));
}

RankLocation this_rank_location(const RankEnvironment& environment, const std::string& address) {
  const auto choice = interface_choice(environment);
  if (!choice) return {host_identity(), address};
  const std::vector<Interface> all = list_interfaces();
  const Interface* const found = choice->among(all, source_address_for(environment.master_addr));
  if (!found) throw Error(ExitStatus::peer, std::string(choice->variable) + ": the interface has gone down");
  return {host_identity(), found->address, found->name};
}

std::string nccl_interface(const RankEnvironment& environment, const Placement& placement) {
  const std::string given = environment_value("NCCL_SOCKET_IFNAME");
  if (!given.empty()) {
    const bool is_of_other_hosts =
        environment.on_one_host() && !InterfaceChoice("", given).among(list_interfaces(), "");
    return is_of_other_hosts ? "=lo" : given;
  }
  return placement.interface.empty() ? "" : "=" + placement.interface;
}

Placement compute_placement(const RankEnvironment& environment, const std::vector<RankLocation>& places) {
  const auto here = places.begin() + environment.rank;
  const auto on_this_host = [&](const RankLocation& place) { return place.host == here->host; };
  Placement placement;
  placement.address = address_among(*here, environment.rank, places);
  placement.interface = here->interface;
  placement.local_rank = environment.local_rank.value_or(int(std::count_if(places.begin(), here, on_this_host)));
  placement.local_world_size =
      environment.local_world_size.value_or(int(std::count_if(places.begin(), places.end(), on_this_host)));
  return placement;
}

int64_t count_ranks_per_host(const std::vector<RankLocation>& places, const std::string& wanted_by) {
  constexpr size_t max_shown = 8;
  struct Series {  ///< of consecutive ranks
    RankLocation place;
    int64_t ranks = 0;
  };
  std::vector<Series> series;
  for (const RankLocation& place : places) {
    if (series.empty() || series.back().place.host != place.host) series.push_back({place});
    ++series.back().ranks;
  }
  std::set<std::string> hosts;
  bool equal = true;
  for (const Series& one : series) equal = hosts.insert(one.place.host).second && one.ranks == series[0].ranks && equal;
  if (equal) return series[0].ranks;
  std::string found;
  for (size_t i = 0; i < std::min(series.size(), max_shown); ++i)
    found += (i ? ", then " : "") + counted(series[i].ranks, "rank") + " on " + series[i].place.host_name();
  throw Error(ExitStatus::usage, wanted_by + ": found " + found + (series.size() > max_shown ? ", ..." : "") +
                                     ", wanted equally many consecutive ranks on each host");
}

void check_route(const RankEnvironment& environment, const std::vector<RankLocation>& places) {
  const RankLocation& own = places.at(size_t(environment.rank));
  RankLocation rank0 = places.at(0);
  if (own.host == rank0.host || (own.interface.empty() && rank0.interface.empty())) return;
  if (rank0.interface.empty()) rank0.address = environment.master_addr;
  std::string cause;
  if (!can_reach(own.address, rank0.address, environment.master_port, cause))
    throw unreachable(environment.rank, own, rank0, cause);
}

}  // namespace wmtp
