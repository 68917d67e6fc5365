#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/error.h"
#include "base/json_reader.h"
#include "data/manifest.h"

namespace graphpipe {
namespace {

constexpr std::string_view kFormat = "graphpipe-dataset";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMaxFieldBytes = std::int64_t{1} << 40;

DType read_dtype(const JsonReader& json) {
  const std::string found = json.string();
  if (const std::optional<DType> dtype = parse_dtype(found)) return *dtype;
  json.fail(
      fmt::format("unknown dtype \"{}\"; expected one of float32, float64, int64, bool", found));
}

std::string read_file_name(const JsonReader& json) {
  const std::string file = json.string();
  if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos) {
    json.fail(
        fmt::format("expected the name of a file in the manifest's folder, found \"{}\"", file));
  }
  return file;
}

// A division at each step: the product may be larger than 64 bits hold.
void check_bytes(const JsonReader& json, const ManifestField& field, std::int64_t samples) {
  std::int64_t room = kMaxFieldBytes / dtype_bytes(field.dtype) / samples;
  for (const std::int64_t size : field.shape) room /= size;
  if (room > 0) return;
  json.fail(fmt::format("{} samples of it are more than {} bytes, the most that a field may have",
                        samples, kMaxFieldBytes));
}

ManifestField read_field(const JsonReader& json, std::int64_t samples) {
  json.only({"name", "dtype", "shape", "file"});
  ManifestField field;
  field.name = json["name"].string();
  if (field.name.empty()) json["name"].fail("is empty; a field is called as a graph's input");
  field.dtype = read_dtype(json["dtype"]);
  for (const JsonReader& size : json["shape"].items()) {
    field.shape.push_back(size.integer_at_least(1));
  }
  field.file = read_file_name(json["file"]);
  check_bytes(json, field, samples);
  return field;
}

ManifestSplit read_split(const JsonReader& json, std::int64_t samples) {
  json.only({"train", "validation", "test"});
  const ManifestSplit split{.train = json["train"].integer_at_least(1),
                            .validation = json["validation"].integer_at_least(1),
                            .test = json["test"].integer_at_least(1)};
  // Differences: a sum of what hostile files say may be more than 64 bits hold.
  if (split.train > samples || split.validation > samples - split.train ||
      split.test != samples - split.train - split.validation) {
    json.fail(fmt::format("{}, {} and {} samples are not the {} that there are", split.train,
                          split.validation, split.test, samples));
  }
  return split;
}

}  // namespace

Manifest parse_manifest(std::string_view json, const std::string& file) {
  const Json document = parse_json(json, file);
  const JsonReader reader(document, file);
  reader.expect_format(kFormat, kVersion, "a data set",
                       "write the data set anew with this program");
  reader.only({"format", "version", "name", "samples", "split", "fields"});
  Manifest manifest;
  manifest.name = reader["name"].string();
  manifest.samples = reader["samples"].integer_at_least(1);
  if (reader.has("split")) manifest.split = read_split(reader["split"], manifest.samples);
  std::set<std::string> names;
  for (const JsonReader& item : reader["fields"].items()) {
    manifest.fields.push_back(read_field(item, manifest.samples));
    const std::string& name = manifest.fields.back().name;
    if (!names.insert(name).second) {
      item["name"].fail(fmt::format("another field is called \"{}\" too", name));
    }
  }
  if (manifest.fields.empty()) reader["fields"].fail("is empty; expected at least one field");
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  Json fields = Json::array();
  for (const ManifestField& field : manifest.fields) {
    fields.push_back({{"name", field.name},
                      {"dtype", dtype_name(field.dtype)},
                      {"shape", field.shape},
                      {"file", field.file}});
  }
  Json document = {{"format", kFormat},
                   {"version", kVersion},
                   {"name", manifest.name},
                   {"samples", manifest.samples}};
  if (const auto& split = manifest.split) {
    document["split"] = {
        {"train", split->train}, {"validation", split->validation}, {"test", split->test}};
  }
  document["fields"] = std::move(fields);
  return document.dump(1) + "\n";
}

}  // namespace graphpipe
