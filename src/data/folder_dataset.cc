#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/manifest.h"

namespace graphpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are mapped as they are");

std::string system_reason() { return std::generic_category().message(errno); }

// A file in memory, read-only and shared between the processes that map it.
class MappedFile {
 public:
  MappedFile(const std::string& path, std::int64_t expected_bytes, const std::string& what)
      : bytes_(static_cast<std::size_t>(expected_bytes)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw InputError(path, "cannot read: " + system_reason());
    struct stat status {};
    const bool known = ::fstat(fd, &status) == 0;
    const bool fits = known && status.st_size == expected_bytes;
    if (fits) address_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    const std::string reason = system_reason();
    ::close(fd);
    if (known && !fits) {
      throw InputError(path, fmt::format("has {} bytes, expected {} ({}); fetch or write the data "
                                         "set again",
                                         status.st_size, expected_bytes, what));
    }
    if (!known || address_ == MAP_FAILED) throw InputError(path, "cannot map: " + reason);
  }
  MappedFile(MappedFile&& other) noexcept : address_(other.address_), bytes_(other.bytes_) {
    other.address_ = MAP_FAILED;
  }
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (address_ != MAP_FAILED) ::munmap(address_, bytes_);
  }
  const std::byte* data() const { return static_cast<const std::byte*>(address_); }

 private:
  void* address_ = MAP_FAILED;
  std::size_t bytes_;
};

Split split_in_order(const ManifestSplit& sizes) {
  std::int64_t next = 0;
  const auto part = [&](std::int64_t samples) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(samples));
    std::iota(ids.begin(), ids.end(), next);
    next += samples;
    return ids;
  };
  Split split;
  split.train = part(sizes.train);
  split.validation = part(sizes.validation);
  split.test = part(sizes.test);
  return split;
}

ManifestSplit sizes_in_order(const Split& split) {
  const auto size = [](const std::vector<std::int64_t>& ids) {
    return static_cast<std::int64_t>(ids.size());
  };
  const ManifestSplit sizes{
      .train = size(split.train), .validation = size(split.validation), .test = size(split.test)};
  GP_CHECK(split_in_order(sizes) == split, "a split that is not in the order of the samples");
  return sizes;
}

class FolderDataset : public Dataset {
 public:
  explicit FolderDataset(const std::string& folder) {
    const std::string path = folder + "/manifest.json";
    const Manifest manifest = parse_manifest(read_file(path), path);
    name_ = manifest.name;
    samples_ = manifest.samples;
    split_ = manifest.split;
    for (const ManifestField& field : manifest.fields) {
      files_.emplace_back(
          folder + "/" + field.file, samples_ * field.bytes_per_sample(),
          fmt::format("{} samples of {} bytes", samples_, field.bytes_per_sample()));
      fields_.push_back({field.name, field.dtype, field.shape, files_.back().data()});
    }
  }
  std::string name() const override { return name_; }
  std::int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<Split> split() const override {
    return split_ ? std::optional(split_in_order(*split_)) : std::nullopt;
  }

 private:
  std::string name_;
  std::int64_t samples_ = 0;
  std::optional<ManifestSplit> split_;
  std::vector<MappedFile> files_;
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& folder) {
  return std::make_unique<FolderDataset>(folder);
}

void write_dataset(const Dataset& dataset, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(folder, "cannot make the folder: " + error.message());
  Manifest manifest;
  manifest.name = dataset.name();
  manifest.samples = dataset.samples();
  if (const auto split = dataset.split()) manifest.split = sizes_in_order(*split);
  for (const Field& field : dataset.fields()) {
    manifest.fields.push_back({field.name, field.dtype, field.shape, field.name + ".bin"});
    const std::int64_t bytes = dataset.samples() * field.bytes_per_sample();
    GP_CHECK(field.data != nullptr, "field {} has no data", field.name);
    write_file(folder + "/" + manifest.fields.back().file,
               {reinterpret_cast<const char*>(field.data), static_cast<std::size_t>(bytes)});
  }
  write_file(folder + "/manifest.json", to_json(manifest));
}

}  // namespace graphpipe
