// SHA-256 (OpenSSL's) of texts and files, as 64 lower-case hex digits.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace wmtp {

class WorkProgress;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256& add(std::string_view bytes);
  /// Reads the whole file; Error(data) names the file when it is no regular file or cannot be read.
  Sha256& add_file(const std::filesystem::path& file, WorkProgress* progress = nullptr);
  /// Ends the digest; the object must not be used after it.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_of(std::string_view bytes);
/// `progress`, where there is one, is told of the bytes.
std::string sha256_of_file(const std::filesystem::path& file, WorkProgress* progress = nullptr);

}  // namespace wmtp
