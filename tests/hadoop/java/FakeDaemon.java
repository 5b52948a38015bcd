import java.io.ByteArrayOutputStream;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;

import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.ipc.ProtobufRpcEngine2;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.ipc.StandbyException;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.authorize.ProxyUsers;
import org.apache.hadoop.security.token.SecretManager;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.thirdparty.protobuf.BlockingService;
import org.apache.hadoop.thirdparty.protobuf.ServiceException;
import org.apache.hadoop.yarn.api.ApplicationClientProtocolPB;
import org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException;
import org.apache.hadoop.yarn.proto.ApplicationClientProtocol.ApplicationClientProtocolService;
import org.apache.hadoop.yarn.proto.YarnProtos.QueueInfoProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.GetQueueInfoRequestProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.GetQueueInfoResponseProto;

/**
 * Hadoop's own RPC server with a service that echoes: getQueueInfo answers with the queue name that it is given.
 *
 * <pre>
 * java [-Dprincipal=.. -Dkeytab=..] FakeDaemon token-file simple:authentication token:integrity kerberos:privacy ...
 * </pre>
 *
 * Reads the token file and writes it again beside it in both formats (.0 and .1), then starts a server for each
 * auth:protection and prints "auth:protection port". Lines "for:user url-string" before tell tokens that all servers
 * take. Ends when its standard input does.
 */
public final class FakeDaemon {
    private static final Text KIND = new Text("PLAYED_TOKEN");

    /** Names a user, and nothing else. */
    public static final class FakeIdentifier extends TokenIdentifier {
        private final Text user = new Text();

        public FakeIdentifier() {}

        FakeIdentifier(String name) {
            user.set(name);
        }

        @Override
        public Text getKind() {
            return KIND;
        }

        @Override
        public UserGroupInformation getUser() {
            return UserGroupInformation.createRemoteUser(user.toString());
        }

        @Override
        public void write(DataOutput out) throws IOException {
            user.write(out);
        }

        @Override
        public void readFields(DataInput in) throws IOException {
            user.readFields(in);
        }
    }

    private static final class Secrets extends SecretManager<FakeIdentifier> {
        @Override
        protected byte[] createPassword(FakeIdentifier identifier) {
            try {
                Mac mac = Mac.getInstance("HmacSHA1");
                mac.init(new SecretKeySpec("fake".getBytes(StandardCharsets.US_ASCII), "HmacSHA1"));
                return mac.doFinal(identifier.getBytes());
            } catch (java.security.GeneralSecurityException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public byte[] retrievePassword(FakeIdentifier identifier) throws InvalidToken {
            if (identifier.user.toString().equals("expired")) {
                throw new InvalidToken("token of expired has expired");
            }
            return createPassword(identifier);
        }

        @Override
        public FakeIdentifier createIdentifier() {
            return new FakeIdentifier();
        }
    }

    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration(false);
        conf.addResource("core-default.xml");
        conf.set("hadoop.proxyuser.alice.users", "*");
        conf.set("hadoop.proxyuser.alice.hosts", "*");
        rewrite(args[0], conf);
        String principal = System.getProperty("principal");
        if (principal != null) {
            conf.set("hadoop.security.authentication", "kerberos");
            UserGroupInformation.setConfiguration(conf);
            UserGroupInformation.loginUserFromKeytab(principal, System.getProperty("keytab"));
        }
        ProxyUsers.refreshSuperUserGroupsConfiguration(conf);
        Secrets secrets = new Secrets();
        for (String user : new String[] {"carol", "expired"}) {
            FakeIdentifier identifier = new FakeIdentifier(user);
            System.out.println("for:" + user + " " + new Token<>(identifier, secrets).encodeToUrlString());
        }
        for (String wanted : Arrays.asList(args).subList(1, args.length)) {
            System.out.println(wanted + " " + serve(new Configuration(conf), wanted, secrets));
        }
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        System.exit(0);
    }

    private static int serve(Configuration conf, String wanted, Secrets secrets) throws IOException {
        String[] parts = wanted.split(":");
        conf.set("hadoop.security.authentication", parts[0]);
        conf.set("hadoop.rpc.protection", parts[1]);
        RPC.setProtocolEngine(conf, ApplicationClientProtocolPB.class, ProtobufRpcEngine2.class);
        RPC.Server server = new RPC.Builder(conf)
                .setProtocol(ApplicationClientProtocolPB.class)
                .setInstance(service())
                .setBindAddress("127.0.0.1")
                .setPort(0)
                .setNumHandlers(4)
                .setSecretManager(secrets)
                .build();
        server.start();
        InetSocketAddress address = NetUtils.getConnectAddress(server);
        return address.getPort();
    }

    private static BlockingService service() {
        Class<?> face = ApplicationClientProtocolService.BlockingInterface.class;
        Object fake = Proxy.newProxyInstance(face.getClassLoader(), new Class<?>[] {face}, (self, method, given) -> {
            if (!method.getName().equals("getQueueInfo")) {
                throw new ServiceException(new IOException("not implemented: " + method.getName()));
            }
            return answer(((GetQueueInfoRequestProto) given[1]).getQueueName());
        });
        return ApplicationClientProtocolService.newReflectiveBlockingService(
                (ApplicationClientProtocolService.BlockingInterface) fake);
    }

    private static GetQueueInfoResponseProto answer(String name) throws Exception {
        String said = name;
        if (name.equals("whoami")) {
            UserGroupInformation user = UserGroupInformation.getCurrentUser();
            UserGroupInformation real = user.getRealUser();
            said = user.getUserName() + " " + (real == null ? null : real.getUserName()) + " "
                    + (real == null ? user : real).getAuthenticationMethod();
        } else if (name.equals("standby")) {
            throw new ServiceException(new StandbyException("this one sleeps"));
        } else if (name.equals("missing")) {
            throw new ServiceException(new ApplicationNotFoundException("no such application"));
        } else if (name.startsWith("slow")) {
            Thread.sleep(300);
        }
        return GetQueueInfoResponseProto.newBuilder().setQueueInfo(QueueInfoProto.newBuilder().setQueueName(said)).build();
    }

    private static void rewrite(String path, Configuration conf) throws IOException {
        Credentials credentials = Credentials.readTokenStorageFile(new File(path), conf);
        for (Credentials.SerializedFormat format : Credentials.SerializedFormat.values()) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            credentials.writeTokenStorageToStream(new DataOutputStream(bytes), format);
            Files.write(new File(path + "." + format.ordinal()).toPath(), bytes.toByteArray());
        }
    }
}
