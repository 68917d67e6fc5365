#include "job/status.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include "base/error.h"

namespace graphpipe {
namespace {

RankStatus* map_file(int file) {
  void* mapped = mmap(nullptr, sizeof(RankStatus), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<RankStatus*>(mapped);
}

std::string_view cut_text(const char* text, std::size_t capacity) {
  return {text, strnlen(text, capacity)};
}

bool is_known(const Action& action, const Plan& plan) {
  return action.stage.valid() && action.stage.index() < plan.stages.size() &&
         (!action.edge.valid() || action.edge.index() < plan.edges.size()) &&
         action.kind >= ActionKind::kForward && action.kind <= ActionKind::kDropVersion;
}

bool has_micro_batch(ActionKind kind) {
  return kind != ActionKind::kStartReduce && kind != ActionKind::kWaitReduce &&
         kind != ActionKind::kStep && kind != ActionKind::kMakeVersion &&
         kind != ActionKind::kDropVersion;
}

}  // namespace

bool is_done(const RankStatus& status) {
  return cut_text(status.phase, sizeof(status.phase)) == "done";
}

std::string to_text(const RankStatus& status, const Plan& plan) {
  std::string text;
  if (status.iteration >= 0) text = fmt::format("iteration {}", status.iteration);
  const auto append = [&text](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  if (status.position >= 0 && is_known(status.action, plan)) {
    append(fmt::format("stage {}", status.action.stage.value));
    if (has_micro_batch(status.action.kind)) {
      append(fmt::format("micro-batch {}", status.action.micro_batch));
    }
    append(to_text(status.action, plan));
    if (cut_text(status.phase, sizeof(status.phase)) == "evaluate") append("evaluating");
  } else {
    append(std::string(cut_text(status.phase, sizeof(status.phase))));
  }
  append(std::string(cut_text(status.note, sizeof(status.note))));
  return text;
}

std::unique_ptr<StatusFile> StatusFile::create(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    throw InputError(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  RankStatus* status = ftruncate(file, sizeof(RankStatus)) == 0 ? map_file(file) : nullptr;
  if (status == nullptr) {
    throw InputError(path, fmt::format("cannot be mapped: {}", std::strerror(errno)));
  }
  new (status) RankStatus;
  status->pid = static_cast<std::int32_t>(getpid());
  return std::unique_ptr<StatusFile>(new StatusFile(status));
}

std::unique_ptr<StatusFile> StatusFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat properties = {};
  if (fstat(file, &properties) != 0 ||
      properties.st_size < static_cast<off_t>(sizeof(RankStatus))) {
    close(file);
    return nullptr;
  }
  RankStatus* status = map_file(file);
  return status == nullptr ? nullptr : std::unique_ptr<StatusFile>(new StatusFile(status));
}

StatusFile::~StatusFile() { munmap(status_, sizeof(RankStatus)); }

void StatusFile::set_phase(const char* phase) {
  status_->position = -1;
  std::strncpy(status_->phase, phase, sizeof(status_->phase) - 1);
}

void StatusFile::set_note(const std::string& note) {
  const std::size_t length = note.copy(status_->note, sizeof(status_->note) - 1);
  status_->note[length] = '\0';
}

std::string status_path(const std::string& folder, int rank) {
  return fmt::format("{}/status.{}", folder, rank);
}

}  // namespace graphpipe
