#include "base/secret.hpp"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

std::string random_token() {
  uint8_t drawn[16];
  if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
    throw Error(ExitStatus::storage, std::string("the system provides no random numbers: ") + std::strerror(errno));
  return to_hex(drawn);
}

bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace wmtp
