package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.*;

/** What answers is no gateway, or a hostile one. Prints a line for each case; 1 if one fails. */
final class GatewayTests {
  private static final List<String> SECRETS = new ArrayList<>();
  private static int status;
  private static String location, body;
  private static boolean failed;

  public static void main(String[] arguments) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    String url = "http://127.0.0.1:" + server.getAddress().getPort();
    server.createContext("/", exchange -> {
      SECRETS.add(exchange.getRequestURI() + " " + exchange.getRequestHeaders().getFirst("Authorization"));
      if (location != null) exchange.getResponseHeaders().set("Location", location);
      exchange.sendResponseHeaders(status, 0);
      exchange.getResponseBody().write(body.getBytes(UTF_8));
      exchange.close();
    });
    server.start();
    try {
      story(url);
    } finally {
      server.stop(0);
    }
    System.exit(failed ? 1 : 0);
  }

  private static void story(String url) {
    Gateway gateway = new Gateway(url);
    Registration phone = new Registration(url, "fcm", "a-token-of-firebase:1234", null, null, null);
    String made = "{\"id\":\"one\",\"endpoint\":\"https://push.example.org/1\",\"secret\":\"two\"}";
    answers(201, made);
    check("a subscription", "one", () -> gateway.subscribe(phone).get("id"));
    for (String other : new String[] {"id", "endpoint", "secret"}) {
      answers(201, made.replace('"' + other + '"', "\"other\""));
      check("without its " + other, "The gateway's answer has no valid " + other, () -> gateway.subscribe(phone));
    }
    answers(201, made.replace("one", "../messages/1"));
    check("an id that leads elsewhere", "The gateway's answer has no valid id", () -> gateway.subscribe(phone));
    answers(201, made.replace("https:", "file:"));
    check("an endpoint of another kind", "The gateway's answer has no valid endpoint", () -> gateway.subscribe(phone));
    answers(200, "<html>Sign in to this network</html>");
    check("no JSON", "The answer is no JSON object: is this a gateway's address?", () -> gateway.subscribe(phone));
    answers(200, made + " ".repeat(70_000));
    check("a long answer", "The answer is too long", () -> gateway.subscribe(phone));
    answers(400, "{\"code\":\"bad_request\",\"message\":\"" + "no ".repeat(1000) + "\"}");
    check("a long reason", "The gateway answered 400: " + "no ".repeat(85), () -> gateway.subscribe(phone));
    answers(503, "busy");
    check("a proxy's refusal", "The gateway answered 503: ", () -> gateway.subscribe(phone));

    answers(200, "{\"messages\":[{\"id\":\"a\"},{\"id\":\"b\"}]}");
    check("what waits", "[a, b]", () -> gateway.waiting("id", "secret").toString());
    for (String list : new String[] {"[7]", "[{}]", "[{\"id\":\"../subscriptions/a\"}]"}) {
      answers(200, "{\"messages\":" + list + "}");
      check("what waits is " + list, "The gateway's answer has no valid id", () -> gateway.waiting("id", "secret"));
    }
    answers(200, "{}");
    check("no list", "The gateway's answer has no messages", () -> gateway.waiting("id", "secret"));
    check("a message elsewhere", "The push names no message", () -> gateway.fetch("../subscriptions/id", "secret"));

    answers(307, "");
    location = url + "/elsewhere";
    check("sent elsewhere", "The gateway answered 307: ", () -> gateway.waiting("id", "secret"));
    check("the secret stays here", "false", () -> SECRETS.contains("/elsewhere Bearer secret"));
    check("nobody there", "Connection refused", () -> new Gateway("http://127.0.0.1:1").waiting("id", "secret"));
  }

  private static void answers(int status, String body) {
    GatewayTests.status = status;
    GatewayTests.body = body;
    location = null;
  }

  private interface Call {
    Object run() throws IOException;
  }

  private static void check(String what, String expected, Call call) {
    String found;
    try {
      found = String.valueOf(call.run());
    } catch (IOException | RuntimeException error) {
      found = error.getMessage();
    }
    boolean isRight = expected.equals(found);
    failed |= !isRight;
    System.err.println(isRight ? "ok   " + what : "FAIL " + what + ": " + found);
  }
}
