import subprocess
import sys

from dataplane.routing.prompt_blocks import BLOCK_TOKENS, MAX_BLOCKS, hash_blocks

TOKENS = list(range(10 * BLOCK_TOKENS + 7))


def test_only_full_blocks_are_hashed_and_each_stands_for_all_before_it() -> None:
    blocks = hash_blocks(TOKENS, "acme")
    assert len(blocks) == len(set(blocks)) == 10
    changed = [*TOKENS]
    changed[3 * BLOCK_TOKENS] += 1
    others = hash_blocks(changed, "acme")
    assert others[:3] == blocks[:3]
    assert not set(others[3:]) & set(blocks), "what follows is another's, though its tokens agree"
    assert hash_blocks(TOKENS[: BLOCK_TOKENS - 1], "acme") == ()


def test_tenants_share_nothing() -> None:
    assert not set(hash_blocks(TOKENS, "acme")) & set(hash_blocks(TOKENS, "open"))


def test_the_hashes_are_the_same_in_every_process() -> None:
    script = (
        "from dataplane.routing.prompt_blocks import hash_blocks;"
        f"print(hash_blocks(range({len(TOKENS)}), 'acme')[-1].hex())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hash_blocks(TOKENS, "acme")[-1].hex()


def test_the_number_of_blocks_of_one_prompt_is_bounded() -> None:
    assert len(hash_blocks(range((MAX_BLOCKS + 5) * BLOCK_TOKENS), "acme")) == MAX_BLOCKS
