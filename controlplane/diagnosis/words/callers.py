"""The words for callers, for what they have of a server, and for what they pay."""

CALLER = (
    r"\b(tenants?|teams?|customers?|users?|callers?|api keys?|keys?|projects?|accounts?|orgs?"
    r"|organi[sz]ations?|departments?|consumers?|apps?|namespaces?|source ips?|ips?|addresses"
    r"|workflows?|agents?|jobs?|bots?|tiers?|workspaces?|integrations?|scripts?)\b"
)
LOAD = (
    r"in ?flight|requests?|tokens?|share|seats?|slots?|running|rps|qps|calls|usage|held|holds|kv"
    r"|load|concurren|arrivals?|prompts?|streams|per s"
)
PAIN = (
    r"ttft|wait|latency|delay|queue|slow|p50|p9\d|timeout|error|rejected|429|503|itl|tpot|e2e|limit"
    r"|quota|max|allowed|budget"
)
