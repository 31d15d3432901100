<?php
// push-bouncer accepts what PHP's OpenSSL signs and encrypts, as Nextcloud's servers do, and PHP accepts what push-bouncer
// makes: nextcloud.php TEST-TOOL [URL]. Given the URL of a running proxy as well, it registers a device as a phone does, and sends notifications
// as a server does, in the form that http_build_query writes.
declare(strict_types=1);

const PADDINGS = ['OAEP' => OPENSSL_PKCS1_OAEP_PADDING, 'PKCS1' => OPENSSL_PKCS1_PADDING];

function verify(bool $condition, string $what): void {
    if (!$condition) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

/** @return array{0: string, 1: string} the private and the public key in PEM */
function generate(): array {
    $key = openssl_pkey_new(['private_key_bits' => 2048, 'private_key_type' => OPENSSL_KEYTYPE_RSA]);
    openssl_pkey_export($key, $private);
    return [$private, openssl_pkey_get_details($key)['key']];
}

function sign(string $data, string $private): string {
    openssl_sign($data, $signature, $private, OPENSSL_ALGO_SHA512);
    return base64_encode($signature);
}

function encrypt(string $text, string $public, int $padding): string {
    openssl_public_encrypt($text, $subject, $public, $padding);
    return $subject;
}

function make(): array {
    [$userPrivate, $userPublic] = generate();
    [$devicePrivate, $devicePublic] = generate();
    $preimage = json_encode(['jürgen@cloud.example.org/nextcloud', 42]);
    $vectors = [[
        'kind' => 'nextcloud_registration', 'user_public_key' => $userPublic, 'preimage' => $preimage,
        'device_identifier' => base64_encode(hash('sha512', $preimage, true)),
        'signature' => sign($preimage, $userPrivate),
    ]];
    foreach (PADDINGS as $name => $padding) {
        $text = json_encode(['nid' => 1337, 'app' => 'spreed', 'subject' => 'Zürich 🚀', 'type' => 'chat', 'id' => 't/k']);
        $subject = encrypt($text, $devicePublic, $padding);
        $vectors[] = [
            'kind' => 'nextcloud_notification', 'user_public_key' => $userPublic,
            'device_private_key' => $devicePrivate, 'padding' => $name, 'plaintext' => $text,
            'subject' => base64_encode($subject), 'signature' => sign($subject, $userPrivate),
        ];
    }
    return $vectors;
}

function opens(array $vector): bool {
    $signature = base64_decode($vector['signature'], true);
    if ($vector['kind'] === 'nextcloud_registration') {
        return openssl_verify($vector['preimage'], $signature, $vector['user_public_key'], OPENSSL_ALGO_SHA512) === 1
            && base64_encode(hash('sha512', $vector['preimage'], true)) === $vector['device_identifier'];
    }
    $subject = base64_decode($vector['subject'], true);
    return openssl_verify($subject, $signature, $vector['user_public_key'], OPENSSL_ALGO_SHA512) === 1
        && openssl_private_decrypt($subject, $text, $vector['device_private_key'], PADDINGS[$vector['padding']])
        && $text === $vector['plaintext'];
}

function check(string $tool, array $vectors): bool {
    $file = tempnam(sys_get_temp_dir(), 'vectors');
    file_put_contents($file, json_encode($vectors));
    exec(escapeshellarg($tool) . ' vectors --check ' . escapeshellarg($file) . ' 2>&1', $output, $status);
    unlink($file);
    return $status === 0;
}

/** @return array{0: int, 1: mixed} the status and the document */
function post(string $url, array $form, string $agent = 'Nextcloud-Server-Crawler/33'): array {
    $context = stream_context_create(['http' => [
        'method' => 'POST', 'header' => 'Content-Type: application/x-www-form-urlencoded',
        'user_agent' => $agent, 'content' => http_build_query($form), 'ignore_errors' => true,
    ]]);
    $body = file_get_contents($url, false, $context);
    preg_match('/ (\d{3})/', $http_response_header[0], $status);
    return [(int)$status[1], json_decode($body, true)];
}

function proxy(string $url): void {
    [$userPrivate, $userPublic] = generate();
    [, $devicePublic] = generate();
    $token = 'interop-' . bin2hex(random_bytes(16)) . ':x';
    $preimage = json_encode(['alice@cloud.example.org', random_int(1, PHP_INT_MAX)]);
    $identifier = base64_encode(hash('sha512', $preimage, true));
    $answer = post("$url/devices", [
        'pushToken' => $token, 'deviceIdentifier' => $identifier,
        'deviceIdentifierSignature' => sign($preimage, $userPrivate), 'userPublicKey' => $userPublic,
    ], 'Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0');
    verify($answer === [200, []], 'a device registers');
    $entries = [];
    foreach (PADDINGS as $padding) {
        $subject = encrypt('{"nid":1337,"delete":true}', $devicePublic, $padding);
        $entries[] = json_encode([
            'deviceIdentifier' => $identifier, 'pushTokenHash' => hash('sha512', $token),
            'subject' => base64_encode($subject), 'signature' => sign($subject, $userPrivate),
            'priority' => 'normal', 'type' => 'background',
        ]);
    }
    $stranger = base64_encode(random_bytes(64));
    $entries[] = json_encode(['deviceIdentifier' => $stranger] + json_decode($entries[0], true));
    [$status, $answer] = post("$url/notifications", ['notifications' => $entries]);
    verify($status === 200 && $answer['unknown'] === [$stranger] && $answer['failed'] >= 1, json_encode($answer));
    echo "ok  a server of PHP has sent notifications\n";
}

$tool = $argv[1];
$theirs = make();
verify(check($tool, $theirs), 'what PHP made passes here');
verify(!check($tool, [['signature' => $theirs[1]['signature']] + $theirs[0]]), 'a wrong vector is noticed');
echo 'ok  ' . count($theirs) . " vectors of PHP pass here\n";
$ours = json_decode(shell_exec(escapeshellarg($tool) . ' vectors --nextcloud'), true);
verify(count($ours) > 0, 'there are vectors of ours');
foreach ($ours as $vector) {
    verify(opens($vector), 'what is made here passes in PHP');
}
echo 'ok  ' . count($ours) . " vectors of ours pass in PHP\n";
if (isset($argv[2])) {
    proxy(rtrim($argv[2], '/'));
}
