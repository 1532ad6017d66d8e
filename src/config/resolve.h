// The second half of parsing: derives what was left out, holds every equation between keys, refuses what is not built,
// and writes the resolved file.
#pragma once
#include <map>
#include <string>

#include "src/config/assign.h"

namespace ogrom {

struct Resolution {
    RunConfig& run;
    const ParseInput& input;
    Assigned& assigned;
    Faults& faults;
    std::map<std::string, std::string> derived;  // key -> how its value came about
    std::set<std::string> idle;                  // keys that were given and dropped with a note
    std::vector<std::string> files = {};         // the run file and those it includes, canonical paths

    [[nodiscard]] bool given(const std::string& key) const { return assigned.given.contains(key); }
    // None of the keys is faulty: a check that needs them makes sense.
    [[nodiscard]] bool sound(std::initializer_list<const char*> keys) const;
    // Adds a fault of `key`, at the place where it was given (else at the run file).
    void fault(const std::string& key, const std::string& what);
    void note(const std::string& text) { run.notes.push_back(text); }
};

void resolve_required(Resolution& r);  // required keys that are missing
void resolve_built(Resolution& r);     // values with a name whose code does not exist yet
void resolve_mesh(Resolution& r);      // an axis left out is derived from the ranks
void resolve_effects(Resolution& r);   // keys without effect in this combination
void resolve_types(Resolution& r);     // storage and transport follow numerics.compute
void resolve_model(Resolution& r);
void resolve_batch(Resolution& r);   // global = micro x accumulation x data; sequence, rows of logits
void resolve_layout(Resolution& r);  // layers on stages, positions on tensor ranks, shards on data ranks
void resolve_schedule(Resolution& r);
void resolve_size(Resolution& r);  // extents whose products pass 64 bits
void resolve_run_section(Resolution& r);
void resolve_stop(Resolution& r);   // train.stop_before is a time
void resolve_trace(Resolution& r);  // the trace must not stand where the run reads or writes

// Every key with its final value and where it came from; parses back to the same values. Keys without effect stand as
// comments.
std::string resolved_text(const Resolution& r);

}  // namespace ogrom
