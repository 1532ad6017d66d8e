// Header and model of a checkpoint as attributes and texts of checkpoint.h5:
//   root attributes   format, step, seed, tokenizer, tokenizer_path, weight_hash, skipped_steps, best_valid_loss,
//   writers /header/          run_toml, provenance, cursor (JSON): one string each /extra            one attribute for
//   each named run state /model            one attribute for each field of ModelConfig
#pragma once
#include <optional>
#include <string>

#include "src/io/checkpoint.h"
#include "src/io/hdf5.h"

namespace ogrom {

void put_header(hid_t file_id, const CheckpointHeader& header, const std::string& file);
CheckpointHeader get_header(hid_t file_id, const std::string& file);
void put_model(hid_t file_id, const ModelConfig& model, const std::string& file);
ModelConfig get_model(hid_t file_id, const std::string& file);

// The format of a checkpoint that a newer version of this program wrote: manifest and master name the same one. Such a
// checkpoint is whole, and nothing to pass over; where a number is damaged the two disagree.
std::optional<i64> newer_format(const std::string& folder);

std::string cursor_json(const Cursor& cursor);
Cursor parse_cursor(const std::string& text, const std::string& file);

}  // namespace ogrom
