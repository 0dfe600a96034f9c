// Random tokens, and their comparison.
#pragma once

#include <string>

namespace wmtp {

/// A random token: 128 bits as hexadecimal digits. Error(storage) if the system provides no random numbers.
std::string random_token();
/// Compares in constant time.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace wmtp
