// How far a long computation has come, told to whoever waits for it.

#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace graphpipe {

// Called now and then with the part that is done, 0 to 1, never less than before. May be empty.
using Progress = std::function<void(double done)>;

// The same of a computation in phases, one after the other; each begins at 0.
using PhaseProgress = std::function<void(const std::string& phase, double done)>;

void tell(const Progress& progress, double done);

// Of the `index`-th of `count` equal parts of a whole.
Progress part_of(const Progress& whole, std::size_t index, std::size_t count);

// Of one phase, which begins now. What would be less than before is told as what was before.
Progress begin_phase(const PhaseProgress& phases, const std::string& phase);

}  // namespace graphpipe
