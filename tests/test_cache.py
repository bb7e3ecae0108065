"""What the keys of the cache hang on."""

from tilegen import cache


def test_a_digest_leaves_out_the_packages_it_is_told_to():
    whole, without = cache.package_digest(("verify",)), cache.package_digest(("verify",), without=("verify/sweep",))
    assert whole != without
    assert without == cache.package_digest(("verify",), without=("verify/sweep", "emit"))


def test_a_digest_is_of_all_packages_unless_some_are_named():
    digests = {cache.package_digest(parts) for parts in ((), ("verify",), ("targets",), ("verify", "targets"))}
    assert len(digests) == 4
