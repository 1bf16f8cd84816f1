"""The flags of ``vllm serve``, and what each one means for capacity.

The names are those of vLLM 0.32 as its parser has them, and of its reference of engine arguments back to 0.8
(docs.vllm.ai). A mark behind a name says what follows the flag: ``!`` nothing (``--no-...`` turns it off), ``+`` one
value or more, ``?`` a value or nothing; without a mark one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Effect(Enum):
    """What becomes of a flag."""

    MODELLED = "modelled"
    IGNORED = "without effect on capacity"
    NOT_MODELLED = "not modelled"
    REFUSED = "refused"


@dataclass(frozen=True)
class Flag:
    """A flag of ``vllm serve``.

    Attributes:
        name: without dashes in front, e.g. ``max-num-seqs``.
        values: ``!``, ``+``, ``?``, or empty for one value.
        effect: what becomes of it.
        reason: what it changes, where that is not modelled or is refused.
    """

    name: str
    values: str
    effect: Effect
    reason: str = ""


MODELLED = """
async-scheduling! block-size data-parallel-size dtype enable-chunked-prefill! enable-expert-parallel!
enable-prefix-caching! enforce-eager! gpu-memory-utilization kv-cache-dtype language-model-only! limit-mm-per-prompt
long-prefill-token-threshold max-long-partial-prefills max-model-len max-num-batched-tokens max-num-partial-prefills
max-num-seqs model num-gpu-blocks-override pipeline-parallel-size quantization scheduler-reserve-full-isl!
scheduling-policy tensor-parallel-size watermark
"""

IGNORED = """
additional-config aggregate-engine-logging! allow-credentials! allow-deprecated-quantization! allowed-headers
allowed-local-media-path allowed-media-domains+ allowed-methods allowed-origins anthropic-disabled-thinking-effort
api-key+ api-server-count aux-output-config chat-template chat-template-content-format code-revision cohere-format
cohere-is-reasoning-model! collect-detailed-traces+ config-format cpu-distributed-timeout-seconds
cudagraph-metrics! custom-histogram-buckets data-parallel-address data-parallel-backend data-parallel-external-lb!
data-parallel-hybrid-lb! data-parallel-multi-port-external-lb! data-parallel-rank data-parallel-rpc-port
data-parallel-size-local data-parallel-start-rank data-parallel-supervisor-port default-chat-template-kwargs device
device-ids disable-access-log-for-endpoints disable-async-output-proc! disable-fastapi-docs!
disable-frontend-multiprocessing! disable-log-requests! disable-log-stats! disable-mm-preprocessor-cache!
disable-nccl-for-dp-synchronization! disable-uvicorn-access-log! distributed-executor-backend
distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s
dp-supervisor-probe-timeout-s ec-manager-config elastic-ep-max-dp-size enable-auto-tool-choice! enable-cumem-allocator!
enable-ep-weight-filter! enable-fault-tolerance! enable-flash-late-interaction! enable-flashinfer-autotune!
enable-force-include-usage! enable-layerwise-nvtx-tracing! enable-log-deltas! enable-log-outputs! enable-log-requests!
enable-logging-iteration-details! enable-mfu-metrics! enable-mm-embeds! enable-nccl-comm-suspend!
enable-offline-docs! enable-per-request-metrics! enable-prompt-embeds! enable-prompt-tokens-details! enable-reasoning!
enable-request-id-headers! enable-return-routed-experts! enable-scale-out! enable-server-load-tracking!
enable-shm-tensor-arena! enable-sleep-mode! enable-ssl-refresh! enable-tokenizer-info-endpoint! enable-trace-replay!
exclude-tools-when-tool-choice-none! fail-on-environ-validation! fault-tolerance-config fingerprint-mode
fingerprint-value generation-config grpc! grpc-port guided-decoding-backend
guided-decoding-disable-additional-properties!
guided-decoding-disable-any-whitespace! guided-decoding-disable-fallback! h11-max-header-count
h11-max-incomplete-event-size headless! hf-config-path hf-token? host ignore-patterns+ interleave-mm-strings!
io-processor-plugin ir-op-priority jit-monitor-mode jit-monitor-verbose! kv-cache-metrics! kv-cache-metrics-sample
kv-events-config load-format log-config-file log-error-stack! log-level logging-config logprobs-mode master-addr
master-port max-log-len max-logprobs max-parallel-loading-workers media-io-kwargs middleware
mm-hasher-algorithm mm-processor-cache-gb mm-processor-cache-type mm-shm-cache-max-object-size-mb mm-tensor-ipc
model-loader-extra-config multi-step-stream-outputs? nnodes node-rank numa-bind! numa-bind-cpus+ numa-bind-nodes+
otlp-traces-endpoint override-generation-config per-request-spec-decode-metrics port prefix-caching-hash-algo
profiler-config pt-load-map-location ray-workers-use-nsight! reasoning-config reasoning-parser reasoning-parser-plugin
response-role return-sampling-mask! return-tokens-as-token-ids! revision root-path safetensors-load-strategy
safetensors-prefetch-block-size safetensors-prefetch-num-threads seed served-model-name+ show-hidden-metrics-for-version
shutdown-timeout skip-tokenizer-init! sleep-mode-offload-cudagraph! sleep-preserve-parameter-names+
sse-keep-alive-interval ssl-ca-certs ssl-certfile ssl-cert-reqs ssl-ciphers ssl-keyfile structured-outputs-config
swap-space tokenizer tokenizer-mode tokenizer-pool-extra-config tokenizer-pool-size tokenizer-pool-type
tokenizer-revision tokens-only! tool-call-parser tool-parser-plugin tool-server tool-strict-level trust-remote-code!
trust-request-chat-template! trust-request-mm-kwargs! uds use-tqdm-on-load! use-v2-block-manager! uvicorn-log-level
watermark-config weight-transfer-config worker-use-ray!
"""

NOT_MODELLED: Mapping[str, str] = {
    "adapters take memory, and time in every step": """
        default-mm-loras enable-lora! enable-lora-bias! enable-mixed-moe-lora-format! enable-moe-shared-loras!
        enable-prompt-adapter! enable-tower-connector-lora! fully-sharded-loras! long-lora-scaling-factors
        lora-dtype lora-extra-vocab-size lora-modules+ lora-target-modules+ max-cpu-loras max-lora-cls-labels
        max-lora-rank max-loras max-prompt-adapter-token max-prompt-adapters prompt-adapters+ qlora-adapter-name-or-path
        specialize-active-lora!""",
    "a draft takes memory and time, and what it guesses right shortens the output's time: every output token is "
    "planned as a step of its own": """
        disable-logprobs-during-spec-decoding? ngram-prompt-lookup-max ngram-prompt-lookup-min num-lookahead-slots
        num-speculative-tokens spec-decoding-acceptance-method spec-method spec-model spec-tokens speculative-config
        speculative-disable-by-batch-size speculative-disable-mqa-scorer! speculative-draft-tensor-parallel-size
        speculative-max-model-len speculative-model speculative-model-quantization
        typical-acceptance-sampler-posterior-alpha typical-acceptance-sampler-posterior-threshold""",
    "other kernels take other times than those that the step cost rests on": """
        all2all-backend attention-backend attention-config dcp-comm-backend disable-cascade-attn!
        disable-custom-all-reduce! enable-hc-sp! gdn-prefill-backend kda-decode-backend kda-prefill-backend
        kernel-config linear-backend mamba-backend mamba-ssu-algorithm model-impl moe-backend
        sparse-indexer-topk-backend use-fp64-gumbel!""",
    "compilation and CUDA graphs other than the default ones: the step cost and the memory beside weights and KV "
    "cache rest on those": """
        compilation-config cuda-graph-sizes+ cudagraph-capture-sizes+ max-cudagraph-capture-size
        max-seq-len-to-capture optimization-level performance-mode""",
    "the way back of offloaded KV has a bandwidth that the flag does not say: state kv_offload": """
        kv-offloading-backend kv-offloading-size""",
    "KV that comes from other engines or stores, and goes to them": "ec-transfer-config kv-transfer-config",
    "experts that are moved or copied while the engine runs, and batches that overlap: placement is fixed and steps "
    "are one after another": """
        dbo-decode-token-threshold dbo-prefill-token-threshold dp-sync-interval enable-batch-sharded-sampling!
        enable-dbo! enable-elastic-ep! enable-eplb! eplb-config eplb-log-balancedness! eplb-step-interval
        eplb-window-size expert-placement-strategy num-redundant-experts ubatch-size""",
    "the scheduler has no such rule": """
        disable-chunked-mm-input! long-prefill-token-threshold-adaptive! max-num-active-seqs max-num-queued-reqs
        max-num-queued-tokens max-num-scheduled-tokens num-scheduler-steps preemption-mode prefill-schedule-interval
        scheduler-cls scheduler-delay-factor stream-interval""",
    "the KV cache is laid out otherwise": """
        calculate-kv-scales! cp-kv-cache-interleave-size dcp-kv-cache-interleave-size dcp-q-replicate!
        disable-hybrid-kv-cache-manager! disable-sliding-window! enable-mamba-cache-stochastic-rounding!
        enable-mamba-shared-prefix-checkpoint! kv-cache-dtype-skip-layers+ kv-sharing-fast-prefill! mamba-block-size
        mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds mamba-ssm-cache-dtype
        prefix-cache-retention-interval prefix-match-unit replayssm-buffer-len swa-bounded-replay! use-replayssm!""",
    "time and memory of encoding images, video and sound": """
        enable-multimodal-encoder-data-parallel! mm-device-do-normalize! mm-encoder-attn-backend mm-encoder-attn-dtype
        mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-tp-mode
        mm-ipc-gpu-memory-gb mm-processor-device mm-processor-kwargs renderer-num-workers skip-mm-profiling!
        video-pruning-method video-pruning-rate""",
    "code of your own in the engine": "logits-processor-pattern logits-processors+ worker-cls worker-extension-cls",
    "another model than the catalog describes": """
        hf-overrides model-class-overrides override-attention-dtype override-neuron-config quantization-config
        rope-scaling rope-theta""",
}

REFUSED: Mapping[str, str] = {
    "its settings are not read: state them as flags or as keys": "config",
    "weights that are read over the host's link in every step take another time altogether": """
        cpu-offload-gb cpu-offload-params+ offload-backend offload-group-size offload-num-in-group offload-params+
        offload-prefetch-step""",
    "a context that is split over GPUs has another KV pool and other steps": """
        decode-context-parallel-size prefill-context-parallel-size""",
    "it sizes the KV pool: state num_gpu_blocks as the engine prints it": "kv-cache-memory-bytes",
    "an engine that does not generate tokens one after another is not modelled": """
        convert diffusion-config engram-config mm-encoder-only! override-pooler-config pooler-config runner task""",
}

SHORT: Mapping[str, str] = {
    "O": "optimization-level",
    "ac": "attention-config",
    "asc": "api-server-count",
    "cc": "compilation-config",
    "dc": "diffusion-config",
    "dcp": "decode-context-parallel-size",
    "dp": "data-parallel-size",
    "dpa": "data-parallel-address",
    "dpb": "data-parallel-backend",
    "dpe": "data-parallel-external-lb",
    "dph": "data-parallel-hybrid-lb",
    "dpl": "data-parallel-size-local",
    "dpm": "data-parallel-multi-port-external-lb",
    "dpn": "data-parallel-rank",
    "dpp": "data-parallel-rpc-port",
    "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "pcp": "prefill-context-parallel-size",
    "pp": "pipeline-parallel-size",
    "q": "quantization",
    "r": "node-rank",
    "sc": "speculative-config",
    "spec-draft-tp": "speculative-draft-tensor-parallel-size",
    "tp": "tensor-parallel-size",
}
"""Flags of one dash, and the other names of flags of two."""

ALSO: Mapping[str, str] = {"device-memory-utilization": "gpu-memory-utilization"}
"""Other names of flags of two dashes."""

NEUTRAL: Mapping[str, tuple[str, ...]] = {
    "convert": ("auto", "none"),
    "decode-context-parallel-size": ("1",),
    "optimization-level": ("2",),
    "performance-mode": ("balanced",),
    "prefill-context-parallel-size": ("1",),
    "prefill-schedule-interval": ("1",),
    "num-scheduler-steps": ("1",),
    "runner": ("auto", "generate"),
    "stream-interval": ("1",),
    "task": ("auto", "generate"),
}
"""Values at which a flag changes nothing, beside those of `OFF`."""
OFF = ("", "0", "0.0", "auto", "none", "null", "{}", "false")
"""Values that turn off whatever they are given to, in lower case."""


def _flags() -> dict[str, Flag]:
    blocks = [(MODELLED, Effect.MODELLED, ""), (IGNORED, Effect.IGNORED, "")]
    blocks += [(names, Effect.NOT_MODELLED, reason) for reason, names in NOT_MODELLED.items()]
    blocks += [(names, Effect.REFUSED, reason) for reason, names in REFUSED.items()]
    found: dict[str, Flag] = {}
    for names, effect, reason in blocks:
        for word in names.split():
            name = word.rstrip("!+?")
            found[name] = Flag(name, word[len(name) :], effect, reason)
    return found


FLAGS: Mapping[str, Flag] = _flags()
"""Every flag by its name."""
