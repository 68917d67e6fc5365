#include "base/progress.h"

#include <algorithm>
#include <memory>

namespace graphpipe {

void tell(const Progress& progress, double done) {
  if (progress) progress(done);
}

Progress part_of(const Progress& whole, std::size_t index, std::size_t count) {
  if (!whole) return {};
  return [whole, first = static_cast<double>(index), parts = static_cast<double>(count)](
             double done) { whole((first + std::clamp(done, 0.0, 1.0)) / parts); };
}

Progress begin_phase(const PhaseProgress& phases, const std::string& phase) {
  if (!phases) return {};
  phases(phase, 0);
  return [phases, phase, most = std::make_shared<double>(0)](double done) {
    *most = std::max(*most, std::min(done, 1.0));
    phases(phase, *most);
  };
}

}  // namespace graphpipe
