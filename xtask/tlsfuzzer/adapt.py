"""Runs one script of tlsfuzzer, adapted to a server that has AES-128-GCM alone.

    adapt.py LEVEL KIND SCRIPT ARGUMENTS...

Most scripts for TLS 1.2 speak AES-128-CBC, some with RSA or DHE as their key exchange. From level 1
on these suites stand for the one of ours. At level 2 a client's hello that lacks groups and
signature algorithms gets them, the message of the server's key exchange is expected where scripts
for RSA expect none, and point formats are not, which a server may leave out (RFC 8422, 5.2).
"""

import runpy
import sys

from tlsfuzzer import expect, messages, tree
from tlslite.constants import CipherSuite, ExtensionType, GroupName, SignatureScheme
from tlslite.extensions import SignatureAlgorithmsExtension, SupportedGroupsExtension

level, kind = int(sys.argv[1]), sys.argv[2]

if level >= 1:
    ours = CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    if kind == "ecdsa":
        ours = CipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    for exchange in ["RSA", "DHE_RSA", "ECDHE_RSA", "ECDHE_ECDSA"]:
        for cipher in ["CBC_SHA", "CBC_SHA256", "GCM_SHA256"]:
            name = f"TLS_{exchange}_WITH_AES_128_{cipher}"
            if hasattr(CipherSuite, name):
                setattr(CipherSuite, name, ours)

if level >= 2:
    hello_init = messages.ClientHelloGenerator.__init__
    expect_init = expect.ExpectServerHello.__init__
    add_child = tree.TreeNode.add_child

    def new_hello(self, ciphers=None, extensions=None, *rest, **more):
        extensions = {} if extensions is None else extensions
        groups = SupportedGroupsExtension().create([GroupName.x25519, GroupName.secp256r1])
        extensions.setdefault(ExtensionType.supported_groups, groups)
        schemes = [SignatureScheme.rsa_pss_rsae_sha256, SignatureScheme.rsa_pkcs1_sha256]
        schemes += [SignatureScheme.ecdsa_secp256r1_sha256]
        signatures = SignatureAlgorithmsExtension().create(schemes)
        extensions.setdefault(ExtensionType.signature_algorithms, signatures)
        hello_init(self, ciphers, extensions, *rest, **more)

    def new_expect(self, extensions=None, *rest, **more):
        if extensions:
            extensions.pop(ExtensionType.ec_point_formats, None)
        expect_init(self, extensions, *rest, **more)

    def new_child(self, child):
        is_done = isinstance(child, expect.ExpectServerHelloDone)
        if is_done and isinstance(self, expect.ExpectCertificate):
            self = add_child(self, expect.ExpectServerKeyExchange())
        return add_child(self, child)

    messages.ClientHelloGenerator.__init__ = new_hello
    expect.ExpectServerHello.__init__ = new_expect
    tree.TreeNode.add_child = new_child

sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
