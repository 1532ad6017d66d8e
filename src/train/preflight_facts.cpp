#include "src/train/preflight_facts.h"

#include <nlohmann/json.hpp>

namespace ogrom {

std::string facts_text(const PreflightRank& rank) {
    const nlohmann::json json = {{"host", rank.host},
                                 {"mask", rank.mask},
                                 {"node", rank.place.node},
                                 {"node_rank", rank.place.node_rank},
                                 {"threads", rank.threads},
                                 {"gpu", rank.device.is_gpu()},
                                 {"index", rank.device.index},
                                 {"reason", rank.device.reason},
                                 {"name", rank.device.name},
                                 {"cpu", rank.cpu},
                                 {"driver", rank.driver},
                                 {"uuid", rank.device.uuid},
                                 {"capability", rank.device.capability},
                                 {"pci", rank.device.pci},
                                 {"memory", rank.device.memory_bytes},
                                 {"cuda", rank.device.cuda_version},
                                 {"files", rank.limits.open_files},
                                 {"files_hard", rank.limits.open_files_hard},
                                 {"locked", rank.limits.locked_memory},
                                 {"shm", rank.limits.shared_memory},
                                 {"shm_free", rank.limits.shared_memory_free},
                                 {"infiniband", rank.limits.infiniband},
                                 {"mpi", rank.mpi},
                                 {"program", rank.program}};
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

PreflightRank facts_of(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    PreflightRank rank;
    rank.host = json.at("host");
    rank.mask = json.at("mask");
    rank.place = {json.at("node"), json.at("node_rank")};
    rank.threads = json.at("threads");
    rank.device.backend = json.at("gpu").get<bool>() ? Backend::cuda : Backend::cpu;
    rank.device.index = json.at("index");
    rank.device.reason = json.at("reason");
    rank.device.name = json.at("name");
    rank.cpu = json.at("cpu");
    rank.driver = json.at("driver");
    rank.device.uuid = json.at("uuid");
    rank.device.capability = json.at("capability");
    rank.device.pci = json.at("pci");
    rank.device.memory_bytes = json.at("memory");
    rank.device.cuda_version = json.at("cuda");
    rank.limits = {json.at("files"), json.at("files_hard"), json.at("locked"),
                   json.at("shm"),   json.at("shm_free"),   json.at("infiniband")};
    rank.mpi = json.at("mpi");
    rank.program = json.at("program");
    return rank;
}

}  // namespace ogrom
