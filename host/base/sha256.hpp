// SHA-256 (OpenSSL) of texts and files, as 64 lower-case hexadecimal digits.
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
  /// Adds a file's content. Error(data) if it is not a regular file or cannot be read.
  Sha256& add_file(const std::filesystem::path& file, WorkProgress* progress = nullptr);
  /// Ends the digest; the object must not be used afterwards.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view bytes);
/// Its first 16 digits, which name a file or folder of a cache.
std::string short_sha256_hex(std::string_view bytes);
/// Reports the bytes read to `progress`.
std::string file_sha256_hex(const std::filesystem::path& file, WorkProgress* progress = nullptr);

}  // namespace wmtp
