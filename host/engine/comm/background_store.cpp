#include "engine/comm/background_store.hpp"

#include <thread>

namespace wmtp {
namespace {

constexpr std::chrono::milliseconds between_looks{20};

Error lost(const std::string& name, const std::string& why) { return Error(ExitStatus::peer, name + ": " + why); }

}  // namespace

void BackgroundStore::give(const std::string& key, const std::string& text) {
  try {
    peers_.store()->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  } catch (const std::exception& error) {
    throw lost(name_, error.what());
  }
}

std::string BackgroundStore::take(const std::string& key, int from) {
  try {
    while (!peers_.store()->check({key})) {
      // What a rank says before it leaves is there by the time that it has left.
      if (peers_.has_left(from) && !peers_.store()->check({key}))
        throw lost(name_, "rank " + std::to_string(from) + " has ended");
      if (peers_.lost()) throw lost(name_, "a rank is lost");
      std::this_thread::sleep_for(between_looks);
    }
    const std::vector<uint8_t> bytes = peers_.store()->get(key);
    return {bytes.begin(), bytes.end()};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw lost(name_, error.what());
  }
}

std::string BackgroundStore::broadcast(const std::string& text_of_rank0) {
  if (peers_.size() == 1) return text_of_rank0;
  const std::string place = key("publish");
  if (peers_.rank() != 0) return take(place, 0);
  give(place, text_of_rank0);
  return text_of_rank0;
}

std::vector<std::string> BackgroundStore::gather(const std::string& mine) {
  if (peers_.size() == 1) return {mine};
  const std::string place = key("collect") + "/";
  if (peers_.rank() != 0) {
    give(place + std::to_string(peers_.rank()), mine);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < peers_.size(); ++rank) {
    texts.push_back(take(place + std::to_string(rank), rank));
    peers_.store()->deleteKey(place + std::to_string(rank));
  }
  return texts;
}

}  // namespace wmtp
