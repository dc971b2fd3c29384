// A folder of this test's own, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace strata::test {

class FreshFolder {
 public:
  // In the folder for temporary files.
  FreshFolder() : FreshFolder(std::filesystem::temp_directory_path()) {}

  explicit FreshFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "strata-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made in " + parent.string());
    path_ = name;
  }
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  ~FreshFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::test
